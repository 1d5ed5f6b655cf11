// SPDX-License-Identifier: MIT
#include "cpu/features.h"
#include "layers/quantize/integer_kernels.h"

namespace oort {

#if defined(__aarch64__)
namespace neon_dot {
const IntegerKernels& IntegerKernelsGet();
}
namespace neon_i8mm {
const IntegerKernels& IntegerKernelsGet();
}
const IntegerKernels& IntegerKernelsFor(Isa isa) {
  if (isa == Isa::kNeon && ThisCpu().arm_i8mm) return neon_i8mm::IntegerKernelsGet();
  if (isa == Isa::kNeon && ThisCpu().arm_dot) return neon_dot::IntegerKernelsGet();
  return PlainIntegerKernels();
}
#elif defined(__x86_64__)
#if !defined(OORT_NO_AVX2_DOT)
namespace avx2_dot {
const IntegerKernels& IntegerKernelsGet();
}
#endif
#if !defined(OORT_NO_AVX_VNNI)
namespace avx_vnni {
const IntegerKernels& IntegerKernelsGet();
}
#endif
#if !defined(OORT_NO_AVX512_VNNI)
namespace avx512_vnni {
const IntegerKernels& IntegerKernelsGet();
}
#endif
#if !defined(OORT_NO_AMX_INT8)
namespace amx_int8 {
const IntegerKernels& IntegerKernelsGet();
}
#endif
const IntegerKernels& IntegerKernelsFor([[maybe_unused]] Isa isa) {
#if !defined(OORT_NO_AMX_INT8)
  if (isa == Isa::kAvx512 && ThisCpu().avx512_vnni && ThisCpu().amx_int8) {
    return amx_int8::IntegerKernelsGet();
  }
#endif
#if !defined(OORT_NO_AVX512_VNNI)
  if (isa == Isa::kAvx512 && ThisCpu().avx512_vnni) return avx512_vnni::IntegerKernelsGet();
#endif
#if !defined(OORT_NO_AVX_VNNI)
  if (isa == Isa::kAvx2 && ThisCpu().avx_vnni) return avx_vnni::IntegerKernelsGet();
#endif
#if !defined(OORT_NO_AVX2_DOT)
  if (isa == Isa::kAvx2 || isa == Isa::kAvx512) return avx2_dot::IntegerKernelsGet();
#endif
  return PlainIntegerKernels();
}
#else
const IntegerKernels& IntegerKernelsFor(Isa) { return PlainIntegerKernels(); }
#endif

}  // namespace oort
