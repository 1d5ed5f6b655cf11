// SPDX-License-Identifier: MIT
#include "cpu/features.h"
#include "layers/quantized_linear/cpu/half_rows.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort {

#if defined(__aarch64__)
namespace neon_dot {
const CompactDotKernels& CompactDotKernelsGet();
}
const CompactDotKernels* CompactDotKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_dot ? &neon_dot::CompactDotKernelsGet() : nullptr;
}
namespace neon_i8mm {
const HalfKernels& HalfKernelsGet();
}
const HalfKernels* HalfKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_i8mm ? &neon_i8mm::HalfKernelsGet() : nullptr;
}
#elif defined(__x86_64__)
namespace avx2_dot {
const CompactDotKernels& CompactDotKernelsGet();
}
#if !defined(OORT_NO_AVX512)
namespace avx512_vnni {
const CompactDotKernels& CompactDotKernelsGet();
}
namespace amx {
const CompactTileKernels& CompactTileKernelsGet();
}
const CompactTileKernels* CompactTileKernelsFor(Isa isa) {
  return isa == Isa::kAvx512 && ThisCpu().amx_bf16 ? &amx::CompactTileKernelsGet() : nullptr;
}
#endif
#if !defined(OORT_NO_F16_UNIT)
namespace avx512_f16 {
const CompactTileKernels& CompactTileKernelsGet();
}
const CompactTileKernels* CompactHalfTileKernelsFor(Isa isa) {
  return isa == Isa::kAvx512 && ThisCpu().amx_f16 ? &avx512_f16::CompactTileKernelsGet() : nullptr;
}
#endif
const CompactDotKernels* CompactDotKernelsFor(Isa isa) {
#if !defined(OORT_NO_AVX512)
  if (isa == Isa::kAvx512 && ThisCpu().avx512_vnni) return &avx512_vnni::CompactDotKernelsGet();
#endif
  return isa == Isa::kAvx2 || isa == Isa::kAvx512 ? &avx2_dot::CompactDotKernelsGet() : nullptr;
}
#else
const CompactDotKernels* CompactDotKernelsFor(Isa) { return nullptr; }
#endif

#if !defined(__x86_64__) || defined(OORT_NO_AVX512)
const CompactTileKernels* CompactTileKernelsFor(Isa) { return nullptr; }
#endif
#if !defined(__x86_64__) || defined(OORT_NO_F16_UNIT)
const CompactTileKernels* CompactHalfTileKernelsFor(Isa) { return nullptr; }
#endif
#if !defined(__aarch64__)
const HalfKernels* HalfKernelsFor(Isa) { return nullptr; }
#endif

}  // namespace oort
