// SPDX-License-Identifier: MIT
// Many rows times quantized weights on AMX. Unpacking a piece of weights takes half as long as
// multiplying 128 rows with it, on other units: between the products of one piece stand the lines
// of the next, as many to each.
#include "cpu/compact/compact_kernels.h"

#if defined(OORT_UNIT_amx)
#include <cstring>

#include "cpu/gemm_bf16_amx.h"

#include "cpu/compact/compact_pairs_avx512.h"

namespace oort::OORT_ISA {
namespace {

/// Unpacks a piece of a stretch, half a line at a time.
template <CompactType type, ScaleType scales>
class HalfLines {
 public:
  explicit HalfLines(const TileStretch& stretch)
      : stretch_(stretch),
        group_bytes_(stretch.layout.group_bytes()),
        group_lines_(stretch.layout.group / kSteps),
        zero_(static_cast<float>(stretch.layout.zero)),
        panels_(stretch.panels[1] == nullptr ? 1 : 2),
        count_(2 * panels_ * ((stretch.k - stretch.k0) / kSteps)) {
    StartPanel(0);
  }

  int64_t count() const { return count_; }

  /// To be called `count()` times.
  [[gnu::always_inline]] void Next() {
    second_ = !second_;
    if (second_) {
      First();
    } else {
      Second();
    }
  }

 private:
  static constexpr bool kNibbles = type == CompactType::kInt4;
  static constexpr int kSteps = kNibbles ? 8 : 4;  // of k in a line
  static constexpr int kPair = 2 * kTileColumns;   // elements of a pair of steps

  [[gnu::always_inline]] void First() {
    if (in_group_ == 0) StartGroup();
    __builtin_prefetch(line_ + stretch_.ahead, 0, 2);
    if constexpr (kNibbles) {
      UnpackLowNibbles(line_, {scale_, start_}, out_, kPair);
    } else {
      UnpackFirstBytes(line_, {scale_, start_}, out_);
    }
  }
  [[gnu::always_inline]] void Second() {
    if constexpr (kNibbles) {
      UnpackHighNibbles(line_, {scale_, start_}, out_ + 2 * kPair, kPair);
    } else {
      UnpackLastBytes(line_, {scale_, start_}, out_ + kPair);
    }
    line_ += 64;
    out_ += kSteps / 2 * kPair;
    --in_group_;
    if (--left_ == 0) EndPanel();
  }

  void StartPanel(int panel) {
    panel_ = panel;
    rows_ = {stretch_.panels[panel], 0};
    const int64_t group = stretch_.layout.group, into = stretch_.k0 % group / kSteps;
    group_ = stretch_.panels[panel] + stretch_.layout.group_at(stretch_.k0 / group);
    in_group_ = 0;
    if (into > 0) {
      StartGroup();
      line_ += 64 * into;
      in_group_ -= static_cast<int>(into);
    }
    left_ = (stretch_.k - stretch_.k0) / kSteps;
    out_ = stretch_.to + 2 * kCompactRows * panel;
  }
  void EndPanel() {
    constexpr size_t kBytes = 2 * kCompactRows * sizeof(uint16_t);
    for (int64_t k = stretch_.k; k < stretch_.padded; k += 2, out_ += kPair) {
      std::memset(out_, 0, kBytes);
    }
    if (panel_ + 1 < panels_) StartPanel(panel_ + 1);
  }
  [[gnu::always_inline]] void StartGroup() {
    const CompactLayout& layout = stretch_.layout;
    scale_ = rows_.Scale(group_).v;
    const __m512 minimum = layout.has_minimum ? rows_.Minimum(group_).v : _mm512_setzero_ps();
    if constexpr (kNibbles) {
      start_ = PairNumbers(kNibbleAt16, scale_, minimum, zero_).start;
    } else {
      start_ = PairNumbers(kByteAt15, scale_, minimum, zero_ + 128.0f).start;
    }
    line_ = group_ + layout.head_bytes();
    in_group_ = group_lines_;
    group_ += group_bytes_;
  }

  const TileStretch& stretch_;
  int64_t group_bytes_;
  int group_lines_;
  float zero_;
  int panels_, panel_ = 0;
  int64_t count_, left_ = 0;
  const std::byte *group_ = nullptr, *line_ = nullptr;
  int in_group_ = 0;
  bool second_ = false;
  uint16_t* out_ = nullptr;
  RowScales<scales> rows_;
  __m512 scale_, start_;
};

/// Calls body(tag of the type, tag of the scales' type).
template <CompactType type>
struct CompactTag {
  static constexpr CompactType kType = type;
};
template <typename Body>
void WithLayout(const CompactLayout& layout, Body body) {
  WithScales(layout.scales, [&](auto scales) {
    if (layout.type == CompactType::kInt4) {
      body(CompactTag<CompactType::kInt4>{}, scales);
    } else if constexpr (decltype(scales)::kType != ScaleType::kByte) {
      body(CompactTag<CompactType::kInt8>{}, scales);
    }
  });
}

/// Products of a step of 32 rows, between which halves of lines are dealt out: in larger portions
/// the vector units would wait while tiles are multiplied, and the other way around.
constexpr int kStepProducts = 4;

template <CompactType type, ScaleType scales>
struct Meanwhile {
  HalfLines<type, scales> halves;
  int64_t places, due = 0;
  Meanwhile(const TileStretch& stretch, int64_t products) : halves(stretch), places(products) {}
  [[gnu::always_inline]] void Place() {
    Keep();
    for (due += halves.count(); due >= places; due -= places) halves.Next();
    Keep();
  }
  /// What stands before is not to move behind it.
  [[gnu::always_inline]] static void Keep() { asm volatile("" ::: "memory"); }
};
struct Nothing {
  void Place() {}
};

/// 32 or, unless `low`, 16 rows. Tiles 0 to 3 are sums, 4 and 5 of A, 6 and 7 of B, each loaded for
/// the next step as soon as it was multiplied. B, of which all rows are multiplied, is to stay in
/// the first cache, so A passes it by.
template <bool low, typename Other>
void MultiplyRows(const char* a, const char* b, int64_t steps, const TileSums& sums, Other& other) {
  constexpr int kStepOfA = 2 * kUnitK * kUnitRows, kStepOfB = 2 * kUnitK * kTileColumns;
  constexpr int kRowOfA = 2 * kUnitK, kPairOfB = 4 * kTileColumns;
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
    // Behind the last step nothing may be read: what is here is loaded once more.
    a += i < steps ? kStepOfA : 0;
    b += i < steps ? kStepOfB : 0;
    _tile_dpbf16ps(0, 4, 6);
    other.Place();
    _tile_dpbf16ps(1, 4, 7);
    _tile_stream_loadd(4, a, kRowOfA);
    other.Place();
    if constexpr (low) _tile_dpbf16ps(2, 5, 6);
    _tile_loadd(6, b, kPairOfB);
    other.Place();
    if constexpr (low) _tile_dpbf16ps(3, 5, 7);
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

template <typename Other>
void MultiplyAll(const CompactTiles& tiles, Other& other) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t steps = tiles.steps / kUnitK;
  const char* a = static_cast<const char*>(tiles.a);
  const char* b = reinterpret_cast<const char*>(tiles.b);
  TileSums sums{tiles.start, kFloat * tiles.start_stride, tiles.sums, kFloat * tiles.stride};
  for (int64_t row = 0; row < tiles.rows; row += kUnitRows) {
    if (tiles.rows - row > 16) {
      MultiplyRows<true>(a, b, steps, sums, other);
    } else {
      MultiplyRows<false>(a, b, steps, sums, other);
    }
    a += tiles.a_panel;
    if (sums.from != nullptr) sums.from += kUnitRows * tiles.start_stride;
    sums.to += kUnitRows * tiles.stride;
  }
}

void Multiply(const CompactTiles& tiles) {
  if (tiles.next == nullptr) {
    Nothing nothing;
    return MultiplyAll(tiles, nothing);
  }
  const int64_t panels = (tiles.rows + kUnitRows - 1) / kUnitRows;
  const int64_t products = panels * (tiles.steps / kUnitK) * kStepProducts;
  WithLayout(tiles.next->layout, [&](auto type, auto scales) {
    Meanwhile<decltype(type)::kType, decltype(scales)::kType> other(*tiles.next, products);
    MultiplyAll(tiles, other);
  });
}

void UnpackStretch(const TileStretch& stretch) {
  WithLayout(stretch.layout, [&](auto type, auto scales) {
    HalfLines<decltype(type)::kType, decltype(scales)::kType> halves(stretch);
    for (int64_t i = halves.count(); i > 0; --i) halves.Next();
  });
}

}  // namespace

const CompactTileKernels& CompactTileKernelsGet() {
  static constexpr CompactTileKernels kTable = {
      .begin = BeginTiles, .end = EndTiles, .unpack = UnpackStretch, .multiply = Multiply};
  return kTable;
}

}  // namespace oort::OORT_ISA
#endif
