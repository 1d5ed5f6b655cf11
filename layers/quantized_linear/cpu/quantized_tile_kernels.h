// SPDX-License-Identifier: MIT
// Prefill products with quantized weights on AMX. Weights are dequantized a piece at a time into a
// buffer that stays in the L1 cache for all rows. This happens while the first 32 rows are
// multiplied, two steps ahead of them, because the vector units and the tile unit run in parallel.
// Format says what weights are dequantized to and which instruction multiplies that. Only for
// quantized_tiles.*.cpp.
#pragma once

#include <cstring>

#include "cpu/amx_tiles.h"
#include "layers/quantized_linear/cpu/quantized_lines.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kTilePanelRows = 32, kTileSteps = 32;  // of a packed panel of A

/// Unpacks a piece, a line of each of the two panels at a time.
template <typename Format, WeightType type, ScaleType scales>
class PieceLines {
 public:
  static constexpr bool kNibbles = type == WeightType::kInt4;
  static constexpr int kSteps = kNibbles ? 8 : 4;         // of k in a line
  static constexpr int kStepLines = kTileSteps / kSteps;  // of a step of tiles
  static constexpr int kPlaceLines = kStepLines / 4;      // beside one of its four products
  static_assert(kStepLines % 4 == 0);

  [[gnu::always_inline]] explicit PieceLines(const TileStretch& piece)
      : piece_(piece),
        left_((piece.k - piece.k0) / kSteps),
        out_(piece.to),
        first_(piece, 0),
        second_(piece, 1) {
    // What the last steps lack is zero.
    const int64_t all = piece.padded - piece.k0;
    const int64_t whole = (piece.k - piece.k0) / kTileSteps * kTileSteps;
    if (whole < all) {
      std::memset(piece.to + whole * kTileColumns, 0,
                  static_cast<size_t>((all - whole) * kTileColumns) * sizeof(uint16_t));
    }
  }

  [[gnu::always_inline]] void Next() {
    if (left_ == 0) return;
    --left_;
    first_.Unpack(piece_, out_);
    if (second_.exists()) second_.Unpack(piece_, out_ + 2 * kPanelRows);
    out_ += kSteps / 2 * kPair;
  }

 private:
  static constexpr int kPair = 2 * kTileColumns;  // elements of a pair of steps

  /// Where a panel is read.
  class Panel {
   public:
    [[gnu::always_inline]] Panel(const TileStretch& piece, int index) {
      const std::byte* panel = piece.panels[index];
      if (panel == nullptr) return;
      const PanelLayout& layout = piece.layout;
      const int64_t first = piece.k0 / layout.group, into = piece.k0 % layout.group / kSteps;
      group_ = panel + layout.group_at(first);
      if constexpr (RowScales<scales>::kCounts) {
        rows_ = {panel + layout.steps_at(first), 0};
        in_span_ = layout.span - first % layout.span;
      }
      if (into == 0) return;
      StartGroup(piece.layout);
      line_ += 64 * into;
      in_group_ -= static_cast<int>(into);
    }
    Panel(const Panel&) = delete;  // line_ may point into it
    [[gnu::always_inline]] bool exists() const { return group_ != nullptr; }
    [[gnu::always_inline]] void Unpack(const TileStretch& piece, uint16_t* out) {
      if (in_group_ == 0) StartGroup(piece.layout);
      __builtin_prefetch(fetch_ + piece.ahead, 0, 2);
      if constexpr (kNibbles) {
        Format::UnpackLowNibbles(line_, numbers_, out, kPair);
        Format::UnpackHighNibbles(line_, numbers_, out + 2 * kPair, kPair);
      } else {
        Format::UnpackFirstBytes(line_, numbers_, out);
        Format::UnpackLastBytes(line_, numbers_, out + kPair);
      }
      line_ += 64;
      fetch_ += 64;
      --in_group_;
    }

   private:
    [[gnu::always_inline]] void StartGroup(const PanelLayout& layout) {
      if constexpr (RowScales<scales>::kCounts) {
        if (in_span_ == 0) {
          rows_ = {group_, 0};
          group_ += layout.steps_bytes();
          in_span_ = layout.span;
        }
        --in_span_;
      }
      const __m512 minimum = layout.has_minimum ? rows_.Minimum(group_).v : _mm512_setzero_ps();
      numbers_ = Format::template NumbersOf<type>(rows_.Scale(group_).v, minimum, layout.zero);
      fetch_ = group_ + layout.head_bytes();
      lines_.Read(fetch_);
      line_ = lines_.data();
      in_group_ = layout.group / kSteps;
      group_ += layout.group_bytes();
    }

    const std::byte *group_ = nullptr, *line_ = nullptr;  ///< the group behind the line's
    int in_group_ = 0;                                    ///< lines that are left of it
    int64_t in_span_ = 0;                                 ///< groups that are left of a span
    const std::byte* fetch_ = nullptr;                    ///< where the line lies in the panel
    GroupLines<type> lines_;                              ///< of the group that line_ is in
    RowScales<scales> rows_;
    typename Format::Numbers numbers_;
  };

  const TileStretch& piece_;
  int64_t left_;
  uint16_t* out_;
  Panel first_, second_;
};

/// Calls body(tag of the type, tag of the scales' type).
template <WeightType type>
struct QuantizedTag {
  static constexpr WeightType kType = type;
};
template <typename Body>
void WithLayout(const PanelLayout& layout, Body body) {
  WithScales(layout.scales, [&](auto scales) {
    constexpr ScaleType kScales = decltype(scales)::kType;
    const auto as = [&](auto type) {
      if constexpr (WeightTypeExists(decltype(type)::kType, kScales)) {
        body(type, scales);
      }
    };
    switch (layout.type) {
      case WeightType::kInt4: return as(QuantizedTag<WeightType::kInt4>{});
      case WeightType::kInt5: return as(QuantizedTag<WeightType::kInt5>{});
      case WeightType::kInt6: return as(QuantizedTag<WeightType::kInt6>{});
      default: return as(QuantizedTag<WeightType::kInt8>{});
    }
  });
}

/// A quarter of the lines of a step is dequantized between two products. In larger portions the
/// vector units would wait for the tile unit, and the other way around.
template <typename Lines>
struct Meanwhile {
  Lines lines;
  [[gnu::always_inline]] void Place() {
    Keep();
    for (int i = 0; i < Lines::kPlaceLines; ++i) lines.Next();
    Keep();
  }
  /// A compiler barrier: code before it does not move behind it.
  [[gnu::always_inline]] static void Keep() { asm volatile("" ::: "memory"); }
};
struct Nothing {
  void Place() {}
};

/// Multiplies 32 rows, or 16 unless `low`. Tiles 0 to 3 are sums, 4 and 5 hold A, 6 and 7 hold B.
/// Each is loaded for the next step as soon as it was multiplied. A is loaded with a non-temporal
/// hint, so that B, which all rows read, stays in the L1 cache.
template <typename Products, bool low, typename Other>
[[gnu::always_inline]] inline void MultiplyRows(const char* a, const char* b, int64_t steps,
                                                const TileSums& sums, Other& other) {
  constexpr int kStepOfA = 2 * kTileSteps * kTilePanelRows,
                kStepOfB = 2 * kTileSteps * kTileColumns;
  constexpr int kRowOfA = 2 * kTileSteps, kPairOfB = 4 * kTileColumns;
  SettleMemory(b);
  if (sums.from == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (low) _tile_zero(2);
    if constexpr (low) _tile_zero(3);
  } else {
    const float* lower = sums.from + 16 * (sums.from_stride / 4);
    _tile_loadd(0, sums.from, sums.from_stride);
    _tile_loadd(1, sums.from + 16, sums.from_stride);
    if constexpr (low) _tile_loadd(2, lower, sums.from_stride);
    if constexpr (low) _tile_loadd(3, lower + 16, sums.from_stride);
  }
  _tile_stream_loadd(4, a, kRowOfA);
  _tile_loadd(6, b, kPairOfB);
  _tile_loadd(7, b + 64, kPairOfB);
  if constexpr (low) _tile_stream_loadd(5, a + kStepOfA / 2, kRowOfA);
  for (int64_t i = 1; i <= steps; ++i) {
    // Nothing behind the last step may be read, so the last one is loaded once more.
    a += i < steps ? kStepOfA : 0;
    b += i < steps ? kStepOfB : 0;
    Products::template Add<0, 4, 6>();
    other.Place();
    Products::template Add<1, 4, 7>();
    _tile_stream_loadd(4, a, kRowOfA);
    other.Place();
    if constexpr (low) Products::template Add<2, 5, 6>();
    _tile_loadd(6, b, kPairOfB);
    other.Place();
    if constexpr (low) Products::template Add<3, 5, 7>();
    _tile_loadd(7, b + 64, kPairOfB);
    if constexpr (low) _tile_stream_loadd(5, a + kStepOfA / 2, kRowOfA);
    other.Place();
  }
  float* lower = sums.to + 16 * (sums.to_stride / 4);
  _tile_stored(0, sums.to, sums.to_stride);
  _tile_stored(1, sums.to + 16, sums.to_stride);
  if constexpr (low) _tile_stored(2, lower, sums.to_stride);
  if constexpr (low) _tile_stored(3, lower + 16, sums.to_stride);
}

template <typename Format>
void MultiplyPiece(const QuantizedTiles& tiles) {
  using Products = typename Format::Products;
  constexpr int64_t kFloat = sizeof(float);
  const int64_t steps = (tiles.piece.padded - tiles.piece.k0) / kTileSteps;
  const char* a = static_cast<const char*>(tiles.a);
  const char* b = reinterpret_cast<const char*>(tiles.piece.to);
  TileSums sums{tiles.start, kFloat * tiles.start_stride, tiles.sums, kFloat * tiles.stride};
  WithLayout(tiles.piece.layout, [&](auto type, auto scales) {
    using Lines = PieceLines<Format, decltype(type)::kType, decltype(scales)::kType>;
    constexpr int kAhead = 2;  // steps, of which the first are unpacked before any is multiplied
    Meanwhile<Lines> other{Lines(tiles.piece)};
    for (int i = 0; i < kAhead * Lines::kStepLines; ++i) other.lines.Next();
    if (tiles.rows > 16) {
      MultiplyRows<Products, true>(a, b, steps, sums, other);
    } else {
      MultiplyRows<Products, false>(a, b, steps, sums, other);
    }
  });
  Nothing nothing;
  for (int64_t row = kTilePanelRows; row < tiles.rows; row += kTilePanelRows) {
    a += tiles.a_panel;
    if (sums.from != nullptr) sums.from += kTilePanelRows * tiles.start_stride;
    sums.to += kTilePanelRows * tiles.stride;
    if (tiles.rows - row > 16) {
      MultiplyRows<Products, true>(a, b, steps, sums, nothing);
    } else {
      MultiplyRows<Products, false>(a, b, steps, sums, nothing);
    }
  }
}

}  // namespace
}  // namespace oort::OORT_ISA
