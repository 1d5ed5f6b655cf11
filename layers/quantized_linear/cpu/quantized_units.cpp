// SPDX-License-Identifier: MIT
#include "cpu/features.h"
#include "layers/quantized_linear/cpu/nibble_rows.h"
#include "layers/quantized_linear/cpu/quantized_tiles.h"

namespace oort {

#if defined(__aarch64__)
namespace neon_dot {
const QuantizedDotKernels& QuantizedDotKernelsGet();
}
const QuantizedDotKernels* QuantizedDotKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_dot ? &neon_dot::QuantizedDotKernelsGet() : nullptr;
}
namespace neon_i8mm {
const NibbleKernels& NibbleKernelsGet();
}
const NibbleKernels* NibbleKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_i8mm ? &neon_i8mm::NibbleKernelsGet() : nullptr;
}
#elif defined(__x86_64__)
namespace avx2_dot {
const QuantizedDotKernels& QuantizedDotKernelsGet();
}
#if !defined(OORT_NO_AVX512)
namespace avx512_vnni {
const QuantizedDotKernels& QuantizedDotKernelsGet();
}
namespace amx {
const QuantizedTileKernels& QuantizedTileKernelsGet();
}
const QuantizedTileKernels* QuantizedTileKernelsFor(Isa isa) {
  return isa == Isa::kAvx512 && ThisCpu().amx_bf16 ? &amx::QuantizedTileKernelsGet() : nullptr;
}
#endif
#if !defined(OORT_NO_F16_UNIT)
namespace avx512_f16 {
const QuantizedTileKernels& QuantizedTileKernelsGet();
}
const QuantizedTileKernels* QuantizedF16TileKernelsFor(Isa isa) {
  return isa == Isa::kAvx512 && ThisCpu().amx_f16 ? &avx512_f16::QuantizedTileKernelsGet()
                                                  : nullptr;
}
#endif
const QuantizedDotKernels* QuantizedDotKernelsFor(Isa isa) {
#if !defined(OORT_NO_AVX512)
  if (isa == Isa::kAvx512 && ThisCpu().avx512_vnni) return &avx512_vnni::QuantizedDotKernelsGet();
#endif
  return isa == Isa::kAvx2 || isa == Isa::kAvx512 ? &avx2_dot::QuantizedDotKernelsGet() : nullptr;
}
#else
const QuantizedDotKernels* QuantizedDotKernelsFor(Isa) { return nullptr; }
#endif

#if !defined(__x86_64__) || defined(OORT_NO_AVX512)
const QuantizedTileKernels* QuantizedTileKernelsFor(Isa) { return nullptr; }
#endif
#if !defined(__x86_64__) || defined(OORT_NO_F16_UNIT)
const QuantizedTileKernels* QuantizedF16TileKernelsFor(Isa) { return nullptr; }
#endif
#if !defined(__aarch64__)
const NibbleKernels* NibbleKernelsFor(Isa) { return nullptr; }
#endif

}  // namespace oort
