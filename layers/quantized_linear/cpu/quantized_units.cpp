// SPDX-License-Identifier: MIT
#include "cpu/features.h"
#include "layers/quantized_linear/cpu/byte_tiles.h"
#include "layers/quantized_linear/cpu/nibble_rows.h"
#include "layers/quantized_linear/cpu/quantized_tiles.h"
#include "layers/quantized_linear/cpu/row_pairs.h"

namespace oort {

#if defined(__aarch64__)
namespace neon_dot {
const QuantizedDotKernels& QuantizedDotKernelsGet();
const ByteTileKernels& ByteTileKernelsGet();
}  // namespace neon_dot
const QuantizedDotKernels* QuantizedDotKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_dot ? &neon_dot::QuantizedDotKernelsGet() : nullptr;
}
const ByteTileKernels* ByteTileKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_dot ? &neon_dot::ByteTileKernelsGet() : nullptr;
}
namespace neon_i8mm {
const NibbleKernels& NibbleKernelsGet();
const PairKernels& PairKernelsGet();
}  // namespace neon_i8mm
const NibbleKernels* NibbleKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_i8mm ? &neon_i8mm::NibbleKernelsGet() : nullptr;
}
const PairKernels* PairKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_i8mm ? &neon_i8mm::PairKernelsGet() : nullptr;
}
#elif defined(__x86_64__)
#if !defined(OORT_NO_AVX2_DOT)
namespace avx2_dot {
const QuantizedDotKernels& QuantizedDotKernelsGet();
const ByteTileKernels& ByteTileKernelsGet();
}  // namespace avx2_dot
#endif
#if !defined(OORT_NO_AVX512_VNNI)
namespace avx512_vnni {
const QuantizedDotKernels& QuantizedDotKernelsGet();
const ByteTileKernels& ByteTileKernelsGet();
}  // namespace avx512_vnni
#endif
#if !defined(OORT_NO_AVX_VNNI)
namespace avx_vnni {
const ByteTileKernels& ByteTileKernelsGet();
}
#endif
#if !defined(OORT_NO_AMX)
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
const QuantizedDotKernels* QuantizedDotKernelsFor([[maybe_unused]] Isa isa) {
#if !defined(OORT_NO_AVX512_VNNI)
  if (isa == Isa::kAvx512 && ThisCpu().avx512_vnni) return &avx512_vnni::QuantizedDotKernelsGet();
#endif
#if !defined(OORT_NO_AVX2_DOT)
  if (isa == Isa::kAvx2 || isa == Isa::kAvx512) return &avx2_dot::QuantizedDotKernelsGet();
#endif
  return nullptr;
}
const ByteTileKernels* ByteTileKernelsFor([[maybe_unused]] Isa isa) {
#if !defined(OORT_NO_AVX512_VNNI)
  if (isa == Isa::kAvx512 && ThisCpu().avx512_vnni) return &avx512_vnni::ByteTileKernelsGet();
#endif
#if !defined(OORT_NO_AVX_VNNI)
  if (isa == Isa::kAvx2 && ThisCpu().avx_vnni) return &avx_vnni::ByteTileKernelsGet();
#endif
    // AVX-512 without VNNI multiplies f32 faster than AVX2 bytes.
#if !defined(OORT_NO_AVX2_DOT)
  if (isa == Isa::kAvx2) return &avx2_dot::ByteTileKernelsGet();
#endif
  return nullptr;
}
#else
const QuantizedDotKernels* QuantizedDotKernelsFor(Isa) { return nullptr; }
const ByteTileKernels* ByteTileKernelsFor(Isa) { return nullptr; }
#endif

#if !defined(__x86_64__) || defined(OORT_NO_AMX)
const QuantizedTileKernels* QuantizedTileKernelsFor(Isa) { return nullptr; }
#endif
#if !defined(__x86_64__) || defined(OORT_NO_F16_UNIT)
const QuantizedTileKernels* QuantizedF16TileKernelsFor(Isa) { return nullptr; }
#endif
#if !defined(__aarch64__)
const NibbleKernels* NibbleKernelsFor(Isa) { return nullptr; }
const PairKernels* PairKernelsFor(Isa) { return nullptr; }
#endif

}  // namespace oort
