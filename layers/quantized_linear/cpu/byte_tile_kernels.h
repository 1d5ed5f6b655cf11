// SPDX-License-Identifier: MIT
// The kernels of byte_tiles.h. Only for byte_tiles.dot.cpp and byte_tiles.vnni.cpp.
#pragma once

#include <cstring>
#include <type_traits>

#include "layers/quantized_linear/cpu/byte_lines.h"
#if defined(OORT_ISA_neon)
#include "layers/quantized_linear/cpu/byte_tile_neon.h"
#else
#include "layers/quantized_linear/cpu/byte_tile_x86.h"
#endif
#include "layers/quantized_linear/cpu/byte_tile.h"
#include "layers/quantized_linear/cpu/group_numbers.h"

namespace oort::OORT_ISA {
namespace {

// --- Weights ------------------------------------------------------------------------------------

/// The lines of a group as bytes. These are plain loops, because compilers vectorize them.
template <WeightType type>
void UnpackLines(const std::byte* from, int group, int zero, int8_t* __restrict to) {
  if constexpr (type == WeightType::kInt4) {
    const uint8_t* __restrict both = reinterpret_cast<const uint8_t*>(from);
    for (int k = 0; k < group; k += 8, both += 64, to += 128) {
      for (int i = 0; i < 64; ++i) to[i] = static_cast<int8_t>((both[i] & 15) - zero);
      for (int i = 0; i < 64; ++i) to[64 + i] = static_cast<int8_t>((both[i] >> 4) - zero);
    }
  } else {
    const GroupLines<type> lines(from);
    const uint8_t* __restrict bytes = reinterpret_cast<const uint8_t*>(lines.data());
    for (int i = 0; i < JoinedLines<type>::kBytes; ++i)
      to[i] = static_cast<int8_t>(bytes[i] - zero);
  }
}

/// The scales of all groups, and their minimums where these are.
template <ScaleType type>
void UnpackNumbers(const PanelLayout& layout, int64_t groups, const std::byte* panel, float* scales,
                   float* minimums) {
  constexpr int kFours = kPanelRows / Vec::kWidth;
  [[maybe_unused]] const int64_t group_bytes = layout.group_bytes();
  RowScales<type> rows[kFours];
  for (int64_t g = 0; g < groups; ++g, scales += kPanelRows) {
    if (g == 0 || (RowScales<type>::kCounts && g % layout.span == 0)) {
      const std::byte* steps = panel + layout.steps_at(g);
      Unroll<kFours>([&](auto i) { rows[i] = {steps, i * Vec::kWidth}; });
    }
    const std::byte* head = panel + layout.group_at(g);
    if constexpr (kTileFetchAhead > 0) {
      for (int64_t line = 0; line < group_bytes; line += 64) {
        __builtin_prefetch(head + kTileFetchAhead + line, 0, 2);
      }
    }
    Unroll<kFours>([&](auto i) { rows[i].Scale(head).Store(scales + i * Vec::kWidth); });
    if (minimums == nullptr) continue;
    Unroll<kFours>([&](auto i) { rows[i].Minimum(head).Store(minimums + i * Vec::kWidth); });
    minimums += kPanelRows;
  }
}

template <WeightType type>
void UnpackAll(const PanelLayout& layout, int64_t groups, const std::byte* panel, int8_t* to) {
  for (int64_t g = 0; g < groups; ++g, to += int64_t{layout.group} * kPanelRows) {
    UnpackLines<type>(panel + layout.group_at(g) + layout.head_bytes(), layout.group,
                      layout.zero - ZeroOfTiles(layout), to);
  }
}

/// Weights of 8 bits are bytes already, but heads lie between them.
void CopyLines(const PanelLayout& layout, int64_t groups, const std::byte* panel,
               int8_t* __restrict to) {
  const int64_t bytes = int64_t{layout.group} * kPanelRows;
  for (int64_t g = 0; g < groups; ++g, to += bytes) {
    const int8_t* __restrict from =
        reinterpret_cast<const int8_t*>(panel + layout.group_at(g) + layout.head_bytes());
    for (int64_t i = 0; i < bytes; ++i) to[i] = static_cast<int8_t>(from[i] ^ kTileTurn);
  }
}

BytePanel UnpackPanel(const PanelLayout& layout, int64_t k, const std::byte* panel,
                      std::byte* memory) {
  const int64_t groups = k / layout.group, count = groups * kPanelRows;
  float* scales = reinterpret_cast<float*>(memory);
  float* minimums = layout.has_minimum ? scales + count : nullptr;
  int8_t* lines = reinterpret_cast<int8_t*>(scales + (layout.has_minimum ? 2 : 1) * count);
  WithScales(layout.scales, [&](auto tag) {
    UnpackNumbers<decltype(tag)::kType>(layout, groups, panel, scales, minimums);
  });
  switch (layout.type) {
    case WeightType::kInt4: UnpackAll<WeightType::kInt4>(layout, groups, panel, lines); break;
    case WeightType::kInt5: UnpackAll<WeightType::kInt5>(layout, groups, panel, lines); break;
    case WeightType::kInt6: UnpackAll<WeightType::kInt6>(layout, groups, panel, lines); break;
    default: CopyLines(layout, groups, panel, lines);
  }
  return {lines, scales, minimums};
}

// --- Products -----------------------------------------------------------------------------------

/// Rows from `first` on that whole tiles of V::rows cover; gives the first of those left.
template <typename V>
int MultiplyRows(const ByteTiles& tiles, int first) {
  const int zero = ZeroOfTiles(tiles.layout);
  for (; first + V::rows <= tiles.rows; first += V::rows) {
    for (int column = 0; column < kPanelRows; column += kTileWidth) {
      MultiplyTile<V>(tiles, zero, first, column);
    }
  }
  return first;
}

template <WeightType type, int piece, bool minimums, bool single, bool two_bytes>
void MultiplyAll(const ByteTiles& tiles) {
  int row = 0;
  const auto run = [&](auto rows) {
    row = MultiplyRows<TileVariant<type, rows, piece, minimums, single, two_bytes>>(tiles, row);
  };
  Unroll<kTileMostRows>([&](auto i) {
    constexpr int kRows = kTileMostRows - i;
    if constexpr (HasTileOf(kRows)) run(std::integral_constant<int, kRows>{});
  });
}

/// Calls body(tag) with a bool as tag.value.
template <typename Body>
void WithFlag(bool flag, Body body) {
  if (flag) {
    body(std::true_type{});
  } else {
    body(std::false_type{});
  }
}

template <WeightType type>
void MultiplyType(const ByteTiles& tiles) {
  const PanelLayout& layout = tiles.layout;
  const bool two_bytes = layout.type == WeightType::kInt8 && tiles.x.of_8_bits.scale != nullptr;
  WithFlag(layout.has_minimum, [&](auto minimums) {
    WithFlag(layout.group == tiles.x.piece, [&](auto single) {
      WithFlag(two_bytes, [&](auto both) {
        if constexpr (!both.value || (type == WeightType::kInt8 && kTileTwoBytes)) {
          if (tiles.x.piece == 16) {
            MultiplyAll<type, 16, minimums.value, single.value, both.value>(tiles);
          } else {
            MultiplyAll<type, 32, minimums.value, single.value, both.value>(tiles);
          }
        }
      });
    });
  });
}

void Multiply(const ByteTiles& tiles) {
  if constexpr (kTileSameTypes) return MultiplyType<WeightType::kInt8>(tiles);
  switch (tiles.layout.type) {
    case WeightType::kInt4: return MultiplyType<WeightType::kInt4>(tiles);
    case WeightType::kInt5: return MultiplyType<WeightType::kInt5>(tiles);
    case WeightType::kInt6: return MultiplyType<WeightType::kInt6>(tiles);
    default: return MultiplyType<WeightType::kInt8>(tiles);
  }
}

}  // namespace

const ByteTileKernels& ByteTileKernelsGet() {
  static constexpr ByteTileKernels kTable = {.unpack = UnpackPanel,
                                             .multiply = Multiply,
                                             .fewest_rows = kTileFewestRows,
                                             .two_bytes = kTileTwoBytes};
  return kTable;
}

}  // namespace oort::OORT_ISA
