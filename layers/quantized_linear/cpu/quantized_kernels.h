// SPDX-License-Identifier: MIT
// Kernels on weights of 32 to 4 bits in panels of 16 rows. See quantized_matrix.h.
//
// A panel holds 16 rows of the weight (16 outputs of the product). Of quantized weights it is a
// sequence of groups along k, each of which holds
//   16 scales, f16, f32 or bytes; 16 minimums of the same type, if there are any;
//   lines of 64 bytes, 4 for each row. 8 bits: a line is 4 steps of k, int8. 4 bits: a line is 8
//   steps, of byte j the low half is step j and the high half step 4 + j, as 0..15. 5 and 6 bits:
//   a group is five or three lines (byte_lines.h).
// Where scales and minimums are bytes s and m, they count steps, which stand before the groups of
// every `span` groups: three f16 numbers of each row, a, b and c, 16 each, so that the scale is
// a s / 256, the minimum b m / 256 + c; or, without minimums, a alone, and s has a sign.
// Of floating-point weights a panel is (k, 16) elements.
#pragma once

#include <cstdint>

#include "cpu/activation.h"
#include "cpu/kernels.h"

namespace oort {

inline constexpr int kPanelRows = 16;

/// What elements of a panel are.
enum class WeightType : unsigned char { kF32, kF16, kBf16, kInt8, kInt6, kInt5, kInt4 };

/// What scales and minimums are.
enum class ScaleType : unsigned char { kF32, kF16, kByte, kSignedByte };

/// Whether there are weights of this type with such scales.
constexpr bool WeightTypeExists(WeightType type, ScaleType scales) {
  switch (type) {
    case WeightType::kInt6: return scales == ScaleType::kSignedByte;
    case WeightType::kInt5: return scales == ScaleType::kF16 || scales == ScaleType::kByte;
    case WeightType::kInt8: return scales != ScaleType::kByte;
    default: return true;
  }
}

struct PanelLayout {
  WeightType type = WeightType::kF32;
  /// Steps of k that share scales: 16, 32, 64, …; 16 of 6 bits, 32 of 5, 1 for floating point.
  int group = 1;
  bool has_minimum = false;            ///< value = scale * q + minimum
  ScaleType scales = ScaleType::kF32;  ///< kByte with minimums only, kSignedByte without
  int64_t span = 1;                    ///< of bytes: groups whose scales count the same steps
  int zero = 0;                        ///< value = scale * (q - zero) + minimum

  bool quantized() const { return type >= WeightType::kInt8; }
  bool byte_scales() const {
    return scales == ScaleType::kByte || scales == ScaleType::kSignedByte;
  }
  int scale_bytes() const {
    return scales == ScaleType::kF32 ? 4 : scales == ScaleType::kF16 ? 2 : 1;
  }
  /// Bytes of scales and minimums of a group.
  int64_t head_bytes() const {
    return quantized() ? kPanelRows * scale_bytes() * (has_minimum ? 2 : 1) : 0;
  }
  /// Bytes of a group of a panel.
  int64_t group_bytes() const {
    switch (type) {
      case WeightType::kF32: return 4 * kPanelRows;
      case WeightType::kF16:
      case WeightType::kBf16: return 2 * kPanelRows;
      case WeightType::kInt8: return head_bytes() + int64_t{group} * kPanelRows;
      case WeightType::kInt6: return head_bytes() + int64_t{group} * kPanelRows * 6 / 8;
      case WeightType::kInt5: return head_bytes() + int64_t{group} * kPanelRows * 5 / 8;
      case WeightType::kInt4: return head_bytes() + int64_t{group} * kPanelRows / 2;
    }
    return 0;
  }
  /// Bytes of steps before the groups of a span.
  int64_t steps_bytes() const {
    const int64_t numbers = scales == ScaleType::kByte ? 3 : byte_scales() ? 1 : 0;
    return numbers * static_cast<int64_t>(sizeof(uint16_t)) * kPanelRows;
  }
  /// Where in a panel group `index` is, and where the steps are that its scales count.
  int64_t group_at(int64_t index) const {
    return byte_scales() ? steps_at(index) + steps_bytes() + index % span * group_bytes()
                         : index * group_bytes();
  }
  int64_t steps_at(int64_t index) const { return byte_scales() ? index / span * span_bytes() : 0; }
  int64_t span_bytes() const { return steps_bytes() + span * group_bytes(); }
  /// Bytes of a panel of `k` steps.
  int64_t panel_bytes(int64_t k) const {
    const int64_t groups = k / group;
    return byte_scales() ? groups / span * span_bytes() : groups * group_bytes();
  }
};

/// One panel times rows of x: y[row][i], 16 each.
struct QuantizedGemv {
  PanelLayout layout;
  int64_t k = 0;  ///< a multiple of the group
  const std::byte* panel = nullptr;
  const float* x = nullptr;
  int64_t x_stride = 0;
  int rows = 0;  ///< at most kGemvCallRows
  float* y = nullptr;
  int64_t y_stride = kPanelRows;
};

/// What belongs to the pieces of x as bytes.
struct ByteNumbers {
  float* scale = nullptr;
  int32_t* sum = nullptr;   ///< of what is multiplied
  float* offset = nullptr;  ///< scale * sum
};

/// What products with weights that are stored with a zero point begin with: -zero * sum. Of an x
/// that is not finite the sum may be any number, so that this may wrap.
inline int32_t StartOfProducts(int32_t zero, int32_t sum) {
  return static_cast<int32_t>(0u - static_cast<uint32_t>(zero) * static_cast<uint32_t>(sum));
}

/// The second byte counts steps of 1 / kFineSteps of a step of the first.
inline constexpr int kFineSteps = 254;

/// Rows of x that were rounded to bytes, in pieces of `piece` steps of k with a scale each. The
/// factor is q alone, or kFineSteps * q + fine. A second byte is used for all weights of 8 bits,
/// because these take longer to read than to multiply, and for the few pieces whose largest element
/// is so large that rounding it would make most of the error of the whole row.
struct ByteRows {
  int piece = 32;  ///< 16 or 32; divides the groups of the weight
  /// Rows that lie together: piece by piece, all of them. 1, or kBlockRows where there are more.
  int block = 1;
  int64_t pieces = 0;  ///< of a row
  int8_t* q = nullptr;
  int8_t* fine = nullptr;
  uint8_t* is_fine = nullptr;  ///< for weights of fewer bits: whether the piece has two bytes
  ByteNumbers of_4_bits;       ///< and of 5 and 6
  ByteNumbers of_8_bits;       ///< null where no weight has 8 bits

  /// Where the numbers of a piece are; its bytes begin at `piece` times that.
  int64_t number_at(int64_t row, int64_t p) const {
    return (row / block * pieces + p) * block + row % block;
  }
  /// The same from a row on: with several rows in it, the first of a block.
  ByteRows From(int64_t row) const {
    const int64_t at = number_at(row, 0);
    const auto skip = [&](const ByteNumbers& of) {
      return of.scale == nullptr ? of : ByteNumbers{of.scale + at, of.sum + at, of.offset + at};
    };
    return {piece,        block,           pieces,         q + at * piece, fine + at * piece,
            is_fine + at, skip(of_4_bits), skip(of_8_bits)};
  }
};
/// Rows of a block of ByteRows.
inline constexpr int kBlockRows = 8;

/// The epilogue of the products of some panels: y = activation(z + bias + addend), or activation(z
/// + bias) * (up + up_bias).
struct QuantizedFinish {
  int rows = 0;
  int columns = 0;
  const float* z = nullptr;
  int64_t z_stride = kPanelRows;
  const float* up = nullptr;  ///< null: not gated; its rows lie as those of z
  const float* bias = nullptr;
  const float* up_bias = nullptr;
  const float* addend = nullptr;
  int64_t addend_stride = 0;
  ActivationSpec activation;
  float* y = nullptr;
  int64_t y_stride = 0;
};

/// The error that rounding the weights of a panel may make in the products with one row of x: for
/// each row of the panel the sum over its groups of energy * scale^2 (see argmax_row.h).
struct QuantizedSpread {
  PanelLayout layout;
  int64_t k = 0;
  const std::byte* panel = nullptr;
  const float* energy = nullptr;  ///< of x, one for each group
  float* spread = nullptr;        ///< 16
};

/// Panels that may have a row with (best - y)^2 <= room * (best_spread + spread), going by the
/// largest scales of each panel.
struct NearPanels {
  int64_t panels = 0;
  const float* y = nullptr;        ///< 16 for each panel, none above `best`
  const float* squares = nullptr;  ///< (groups, stride): of a panel's largest scales
  int64_t stride = 0;              ///< panels, and what fills up the last vector
  int64_t groups = 0;
  const float* energy = nullptr;  ///< as in QuantizedSpread
  float best = 0, best_spread = 0;
  float room = 0;
  int32_t* near = nullptr;  ///< gets their indices, in order
};

/// Some panels, one behind the other, times rows as Rows has them: y[row][16 * panel + i].
template <typename Rows>
struct PanelsTimesRows {
  PanelLayout layout;
  int64_t k = 0;
  const std::byte* panel = nullptr;
  int64_t panels = 1;
  const std::byte* end = nullptr;   ///< of the panels that this thread goes on to multiply
  const std::byte* next = nullptr;  ///< what it will likely multiply then; never read
  Rows x;
  int rows = 0;
  float* y = nullptr;
  int64_t y_stride = kPanelRows;
};
using QuantizedDot = PanelsTimesRows<ByteRows>;

/// What is prefetched while dot.panel is multiplied, `distance` bytes before its use.
template <typename SomeDot>
const std::byte* AheadOf(const SomeDot& dot, int64_t distance) {
  const int64_t left = dot.end - dot.panel;
  if (left > distance) return dot.panel + distance;
  // Where nothing follows, prefetching what is in the cache already costs nothing.
  return dot.next == nullptr ? dot.panel : dot.next + (distance - left);
}

/// Rows that one call of gemv multiplies at most.
inline constexpr int kGemvCallRows = 8;
/// Products of at most so many rows are GEMVs on the quantized weights themselves; see
/// QuantizedMultiplier::InvariantRows.
inline constexpr int kMostGemvRows = 12;

/// Where a panel's elements go as bf16: (k / group, row, k % group), group being 2 or 4.
struct Bf16Target {
  uint16_t* blocks[kPanelRows / 4] = {};  ///< four rows each, from step k0 on
  int64_t step = 0;                       ///< elements from one k / group to the next
};

struct QuantizedKernels {
  /// Exact products of f32.
  void (*gemv)(const QuantizedGemv& gemv);
  /// Rounds `count` elements, a multiple of the piece, to the first row of `to`.
  void (*quantize)(const float* x, int64_t count, const ByteRows& to);
  void (*finish)(const QuantizedFinish& finish);
  /// Of quantized weights.
  void (*spread)(const QuantizedSpread& spread);
  /// Gives the number of panels found.
  int64_t (*find_near)(const NearPanels& panels);
};
OORT_DECLARE_KERNELS(QuantizedKernels)

struct DequantizeKernels {
  /// Steps [k0, k1) of a panel as f32, to out[(k - k0) * stride + row]; of quantized weights both
  /// are multiples of 8.
  void (*unpack)(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                 float* out, int64_t stride);
  /// The same rounded to bf16, ties away from zero, in groups of two steps: the blocks are
  /// neighbours. k0 is even; an odd k1 leaves the other half of its group zero.
  void (*unpack_pairs)(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                       const Bf16Target& to);
  /// In groups of four steps, of which k0 is a multiple. Null where no unit wants it.
  void (*unpack_fours)(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                       const Bf16Target& to);
};
OORT_DECLARE_KERNELS(DequantizeKernels)

/// Kernels on units that sum products of bytes; null where the processor has none.
struct QuantizedDotKernels {
  void (*dot)(const QuantizedDot& dot);
  bool byte_scales = false;  ///< whether it gains by scales in bytes
};
const QuantizedDotKernels* QuantizedDotKernelsFor(Isa isa);

}  // namespace oort
