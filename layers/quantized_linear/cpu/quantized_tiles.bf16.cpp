// SPDX-License-Identifier: MIT
// Many rows times quantized weights on AMX, in bf16.
#include "layers/quantized_linear/cpu/quantized_tiles.h"

#if defined(OORT_UNIT_amx)
#include "layers/quantized_linear/cpu/quantized_pairs_avx512.h"
#include "layers/quantized_linear/cpu/quantized_tile_kernels.h"

namespace oort::OORT_ISA {
namespace {

struct Bf16Weights {
  using Products = Bf16Products;
  using Numbers = PairNumbers;

  template <WeightType type>
  [[gnu::always_inline]] static Numbers NumbersOf(__m512 scale, __m512 minimum, int zero) {
    const float from = static_cast<float>(zero);
    if constexpr (type == WeightType::kInt4) return {kNibbleAt16, scale, minimum, from};
    return {kByteAt15, scale, minimum, from + 128.0f};
  }
  [[gnu::always_inline]] static void UnpackLowNibbles(const std::byte* line, const Numbers& numbers,
                                                      uint16_t* to, int64_t step) {
    OORT_ISA::UnpackLowNibbles(line, numbers, to, step);
  }
  [[gnu::always_inline]] static void UnpackHighNibbles(const std::byte* line,
                                                       const Numbers& numbers, uint16_t* to,
                                                       int64_t step) {
    OORT_ISA::UnpackHighNibbles(line, numbers, to, step);
  }
  [[gnu::always_inline]] static void UnpackFirstBytes(const std::byte* line, const Numbers& numbers,
                                                      uint16_t* to) {
    OORT_ISA::UnpackFirstBytes(line, numbers, to);
  }
  [[gnu::always_inline]] static void UnpackLastBytes(const std::byte* line, const Numbers& numbers,
                                                     uint16_t* to) {
    OORT_ISA::UnpackLastBytes(line, numbers, to);
  }
};

}  // namespace

const QuantizedTileKernels& QuantizedTileKernelsGet() {
  static constexpr QuantizedTileKernels kTable = {
      .begin = BeginTiles, .end = EndTiles, .multiply = MultiplyPiece<Bf16Weights>};
  return kTable;
}

}  // namespace oort::OORT_ISA
#endif
