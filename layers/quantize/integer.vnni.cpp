// SPDX-License-Identifier: MIT
// Integer kernels, on AVX-VNNI.
#include "layers/quantize/integer_avx_vnni.h"

namespace oort::OORT_ISA {

const IntegerKernels& IntegerKernelsGet() { return kIntegerKernels; }

}  // namespace oort::OORT_ISA
