// SPDX-License-Identifier: MIT
// Integer kernels, on units that sum products of bytes or of their neighbours.
#if defined(OORT_UNIT_avx512_vnni)
#include "layers/quantize/integer_vnni.h"
#elif defined(OORT_UNIT_avx2_dot)
#include "layers/quantize/integer_avx2.h"
#elif defined(OORT_UNIT_neon_dot)
#include "layers/quantize/integer_neon.h"
#endif

namespace oort::OORT_ISA {

const IntegerKernels& IntegerKernelsGet() { return kIntegerKernels; }

}  // namespace oort::OORT_ISA
