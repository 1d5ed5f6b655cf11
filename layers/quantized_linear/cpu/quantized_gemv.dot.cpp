// SPDX-License-Identifier: MIT
// Products of weights of 8 to 4 bits with bytes, on units that sum four products of bytes.
#include <type_traits>

#include "layers/quantized_linear/cpu/byte_lines.h"

#if defined(OORT_UNIT_neon_dot)
#include "layers/quantized_linear/cpu/byte_sums_neon.h"
#include "layers/quantized_linear/cpu/dot_row_low_bits_neon.h"
#include "layers/quantized_linear/cpu/dot_row_neon.h"
#include "layers/quantized_linear/cpu/dot_rows.h"
#elif defined(OORT_UNIT_avx512_vnni)
#include "layers/quantized_linear/cpu/dot_row_vnni.h"
#include "layers/quantized_linear/cpu/dot_rows_vnni.h"
#elif defined(OORT_UNIT_avx2_dot)
#include "layers/quantized_linear/cpu/byte_sums_avx2.h"
#include "layers/quantized_linear/cpu/dot_rows.h"
#endif

namespace oort::OORT_ISA {
namespace {

/// The least number of bytes by which a panel is prefetched before its use. Weights of 8 bits are
/// consumed faster.
template <WeightType type>
constexpr int64_t kAheadBytes = type == WeightType::kInt8 ? 19456 : 10240;

#if defined(OORT_UNIT_avx512_vnni)
constexpr bool kByteScalesByHand = true;
#else
constexpr bool kByteScalesByHand = false;
#endif

/// Whether the unit has kernels of one row that were written by hand.
#if defined(OORT_UNIT_avx512_vnni)
constexpr bool kHasByHand = true;
#elif defined(OORT_UNIT_neon_dot)
constexpr bool kHasByHand = OORT_HAS_ASSEMBLY;
#else
constexpr bool kHasByHand = false;
#endif

/// Whether the variant was written by hand.
template <typename V>
[[maybe_unused]] inline constexpr bool kByHand =
    kHasByHand&& V::single && !IsJoined(V::type) && !(V::fine && V::minimums) &&
    (V::scales == ScaleType::kF16 || (kByteScalesByHand && V::scales == ScaleType::kByte));

#if defined(OORT_UNIT_neon_dot)
/// Whether DotRowLowBits takes the variant, where groups are one piece.
template <typename V>
inline constexpr bool kTight = V::type != WeightType::kInt8 &&
                               (IsJoined(V::type) || RowScales<V::scales>::kCounts);
#endif

#if defined(OORT_UNIT_neon_dot) || defined(OORT_UNIT_avx512_vnni)
template <typename V>
DotRowX OnlyRow(const QuantizedDot& dot) {
  const ByteNumbers& of = V::NumbersOf(dot.x);
  return {
      dot.k / dot.layout.group, dot.x.q, dot.x.fine, dot.x.is_fine, of.scale, of.offset, of.sum};
}
#endif

/// One panel times the only row.
template <typename V>
void DotOneRow(const QuantizedDot& dot, const std::byte* ahead) {
#if defined(OORT_UNIT_neon_dot)
#if OORT_HAS_ASSEMBLY
  if constexpr (kByHand<V>) {
    if (dot.k > 0) {
      if constexpr (V::fine) {
        return DotRowInt8(OnlyRow<V>(dot), dot.panel, ahead, dot.y);
      } else {
        return DotRowInt4<V::minimums>(OnlyRow<V>(dot), dot.layout.zero, dot.panel, ahead, dot.y);
      }
    }
  }
#endif
  if constexpr (kTight<V>) {
    if (dot.layout.group == V::piece) {
      return DotRowLowBits<V::type, V::minimums, V::scales, V::piece>(OnlyRow<V>(dot), dot.layout,
                                                                      dot.panel, ahead, dot.y);
    }
  }
#endif
  DotRows<V>(dot, 0, ahead);
}

/// All panels times the only row, where kernels take several panels; gives whether they did.
template <typename V>
bool DotPanelsTogether([[maybe_unused]] const QuantizedDot& dot) {
#if defined(OORT_UNIT_avx512_vnni)
  if constexpr (IsJoined(V::type)) {
    DotPanelsOfRow<JoinedGroups<V::type, V::minimums, V::scales>>(dot, OnlyRow<V>(dot));
    return true;
  } else if constexpr (kByHand<V>) {
    using Nibbles = NibbleGroups<V::minimums, V::scales>;
    DotPanelsOfRow<std::conditional_t<V::fine, ByteGroups, Nibbles>>(dot, OnlyRow<V>(dot));
    return true;
  }
#endif
  return false;
}

/// One panel times all rows, of which most are multiplied eight or four at a time.
template <WeightType type, int piece, bool minimums, ScaleType scales, bool single>
void DotPanel(const QuantizedDot& dot, const std::byte* ahead) {
  int row = 0;
  const auto run = [&](auto tag) {
    constexpr int kRows = decltype(tag)::value;
    if constexpr (kRows > kMostRows) return;
    for (; row + kRows <= dot.rows; row += kRows, ahead = nullptr) {
      DotRows<DotVariant<type, piece, kRows, minimums, scales, single>>(dot, row, ahead);
    }
  };
  if constexpr (kMostRows >= 8) run(std::integral_constant<int, 8>{});
  run(std::integral_constant<int, 4>{});
  run(std::integral_constant<int, 2>{});
  run(std::integral_constant<int, 1>{});
}

template <WeightType type, int piece, bool minimums, ScaleType scales, bool single>
void DotAllRows(const QuantizedDot& all) {
  using One = DotVariant<type, piece, 1, minimums, scales, single>;
  // The last of many rows may be alone here, too, but it lies in a block.
  const bool alone = all.x.block == 1;
  // Before the copy, which would stall on recent stores.
  if (all.rows == 0 || (alone && DotPanelsTogether<One>(all))) return;
  QuantizedDot dot = all;
  const int64_t bytes = dot.layout.panel_bytes(dot.k);
  const int64_t distance = bytes == 0 ? 0 : (kAheadBytes<type> / bytes + 1) * bytes;
  for (int64_t p = 0; p < dot.panels; ++p, dot.panel += bytes, dot.y += kPanelRows) {
    const std::byte* ahead = AheadOf(dot, distance);
    if (alone) {
      DotOneRow<One>(dot, ahead);
    } else {
      DotPanel<type, piece, minimums, scales, single>(dot, ahead);
    }
  }
}

template <WeightType type, bool minimums, ScaleType scales>
void DotPieces(const QuantizedDot& dot) {
  if constexpr (type == WeightType::kInt6) {
    DotAllRows<type, 16, minimums, scales, true>(dot);
  } else if constexpr (type == WeightType::kInt5) {
    DotAllRows<type, 32, minimums, scales, true>(dot);
  } else if (dot.x.piece == 16) {
    DotAllRows<type, 16, minimums, scales, false>(dot);
  } else if (dot.layout.group != 32) {
    DotAllRows<type, 32, minimums, scales, false>(dot);
  } else {
    DotAllRows<type, 32, minimums, scales, true>(dot);
  }
}

template <WeightType type>
void DotType(const QuantizedDot& dot) {
  WithScales(dot.layout.scales, [&](auto tag) {
    constexpr ScaleType kScales = decltype(tag)::kType;
    if constexpr (WeightTypeExists(type, kScales)) {
      if constexpr (kScales == ScaleType::kByte) {
        DotPieces<type, true, kScales>(dot);
      } else if constexpr (kScales == ScaleType::kSignedByte) {
        DotPieces<type, false, kScales>(dot);
      } else if (dot.layout.has_minimum) {
        DotPieces<type, true, kScales>(dot);
      } else {
        DotPieces<type, false, kScales>(dot);
      }
    }
  });
}

void Dot(const QuantizedDot& dot) {
  switch (dot.layout.type) {
    case WeightType::kInt4: return DotType<WeightType::kInt4>(dot);
    case WeightType::kInt5: return DotType<WeightType::kInt5>(dot);
    case WeightType::kInt6: return DotType<WeightType::kInt6>(dot);
    default: return DotType<WeightType::kInt8>(dot);
  }
}

}  // namespace

const QuantizedDotKernels& QuantizedDotKernelsGet() {
  static constexpr QuantizedDotKernels kTable = {.dot = Dot, .byte_scales = kByteScalesByHand};
  return kTable;
}

}  // namespace oort::OORT_ISA
