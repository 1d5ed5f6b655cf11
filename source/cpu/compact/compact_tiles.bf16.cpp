// SPDX-License-Identifier: MIT
// Many rows times quantized weights on AMX. Unpacking a stretch of weights takes a third as long
// as multiplying 128 rows with it, on other units: between the products of one stretch stand the
// lines of the next, as many to each.
#include "cpu/compact/compact_kernels.h"

#if defined(OORT_UNIT_amx)
#include <cstring>

#include "cpu/gemm_bf16_amx.h"

#include "cpu/compact/compact_pairs_avx512.h"

namespace oort::OORT_ISA {
namespace {

/// Unpacks a stretch line by line.
template <CompactType type>
class LineUnpacker {
 public:
  explicit LineUnpacker(const TileStretch& stretch)
      : stretch_(stretch),
        group_bytes_(stretch.layout.group_bytes()),
        group_lines_(stretch.layout.group / kSteps),
        zero_(static_cast<float>(stretch.layout.zero)),
        panels_(stretch.panels[1] == nullptr ? 1 : 2),
        lines_(panels_ * (stretch.k / kSteps)) {
    StartPanel(0);
  }

  int64_t lines() const { return lines_; }

  /// To be called `lines()` times.
  [[gnu::always_inline]] void Line() {
    if (in_group_ == 0) StartGroup();
    __builtin_prefetch(line_ + kAhead, 0, 2);
    if constexpr (type == CompactType::kInt4) {
      UnpackNibbleLine(line_, {scale_, start_}, out_, kPair);
    } else {
      UnpackByteLine(line_, {scale_, start_}, out_, kPair);
    }
    line_ += 64;
    out_ += kSteps / 2 * kPair;
    --in_group_;
    if (--left_ == 0) EndPanel();
  }

 private:
  static constexpr int kSteps = type == CompactType::kInt4 ? 8 : 4;  // of k in a line
  static constexpr int kPair = 2 * kTileColumns;                     // elements of a pair of steps
  static constexpr int kAhead = 4096;

  void StartPanel(int panel) {
    panel_ = panel;
    group_ = stretch_.panels[panel] + stretch_.layout.panel_head_bytes();
    in_group_ = 0;
    left_ = stretch_.k / kSteps;
    out_ = stretch_.to + 2 * kCompactRows * panel;
  }
  void EndPanel() {
    constexpr size_t kBytes = 2 * kCompactRows * sizeof(uint16_t);
    for (int64_t k = stretch_.k; k < stretch_.padded; k += 2, out_ += kPair) {
      std::memset(out_, 0, kBytes);
    }
    if (panel_ + 1 < panels_) StartPanel(panel_ + 1);
  }
  void StartGroup() {
    const CompactLayout& layout = stretch_.layout;
    const GroupNumbers of(layout, stretch_.panels[panel_], group_, 0);
    scale_ = of.scale.v;
    if constexpr (type == CompactType::kInt4) {
      start_ = PairNumbers(kNibbleAt16, scale_, of.minimum.v, zero_).start;
    } else {
      start_ = PairNumbers(kByteAt15, scale_, of.minimum.v, zero_ + 128.0f).start;
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
  int64_t lines_, left_ = 0;
  const std::byte *group_ = nullptr, *line_ = nullptr;
  int in_group_ = 0;
  uint16_t* out_ = nullptr;
  __m512 scale_, start_;
};

/// Deals lines out to the steps of all products.
template <CompactType type>
struct Meanwhile {
  LineUnpacker<type> unpacker;
  int64_t steps, lines, due = 0;
  Meanwhile(const TileStretch& stretch, int64_t all_steps)
      : unpacker(stretch), steps(all_steps), lines(unpacker.lines()) {}
  [[gnu::always_inline]] void Step() {
    for (due += lines; due >= steps; due -= steps) unpacker.Line();
  }
};
struct Nothing {
  void Step() {}
};

/// 32 or, unless `low`, 16 rows. Tiles 0 to 3 are sums, 4 and 5 of A, 6 and 7 of B. B, of which all
/// rows are multiplied, is to stay in the first cache, so A passes it by.
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
  for (int64_t i = 0; i < steps; ++i, a += kStepOfA, b += kStepOfB) {
    _tile_stream_loadd(4, a, kRowOfA);
    _tile_loadd(6, b, kPairOfB);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 64, kPairOfB);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (low) {
      _tile_stream_loadd(5, a + kStepOfA / 2, kRowOfA);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    other.Step();
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
  const int64_t steps = tiles.padded / kUnitK;
  const char* a = static_cast<const char*>(tiles.a);
  const char* b = reinterpret_cast<const char*>(tiles.b);
  TileSums sums{tiles.start, kFloat * tiles.start_stride, tiles.sums, kFloat * tiles.stride};
  for (int64_t row = 0; row < tiles.rows; row += kUnitRows) {
    if (tiles.rows - row > 16) {
      MultiplyRows<true>(a, b, steps, sums, other);
    } else {
      MultiplyRows<false>(a, b, steps, sums, other);
    }
    a += 2 * tiles.padded * kUnitRows;
    if (sums.from != nullptr) sums.from += kUnitRows * tiles.start_stride;
    sums.to += kUnitRows * tiles.stride;
  }
}

template <CompactType type>
void MultiplyMeanwhile(const CompactTiles& tiles) {
  const int64_t panels = (tiles.rows + kUnitRows - 1) / kUnitRows;
  Meanwhile<type> other(*tiles.next, panels * (tiles.padded / kUnitK));
  MultiplyAll(tiles, other);
}

void Multiply(const CompactTiles& tiles) {
  if (tiles.next == nullptr) {
    Nothing nothing;
    return MultiplyAll(tiles, nothing);
  }
  if (tiles.next->layout.type == CompactType::kInt4) {
    return MultiplyMeanwhile<CompactType::kInt4>(tiles);
  }
  MultiplyMeanwhile<CompactType::kInt8>(tiles);
}

template <CompactType type>
void UnpackLines(const TileStretch& stretch) {
  LineUnpacker<type> unpacker(stretch);
  for (int64_t i = unpacker.lines(); i > 0; --i) unpacker.Line();
}

void UnpackStretch(const TileStretch& stretch) {
  if (stretch.layout.type == CompactType::kInt4) return UnpackLines<CompactType::kInt4>(stretch);
  UnpackLines<CompactType::kInt8>(stretch);
}

}  // namespace

const CompactTileKernels& CompactTileKernelsGet() {
  static constexpr CompactTileKernels kTable = {
      .begin = BeginTiles, .end = EndTiles, .unpack = UnpackStretch, .multiply = Multiply};
  return kTable;
}

}  // namespace oort::OORT_ISA
#endif
