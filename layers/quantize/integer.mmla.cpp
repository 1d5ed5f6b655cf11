// SPDX-License-Identifier: MIT
// Integer kernels, on units that multiply matrices of bytes.
#include "layers/quantize/integer_mmla_neon.h"

namespace oort::OORT_ISA {

const IntegerKernels& IntegerKernelsGet() { return kIntegerKernels; }

}  // namespace oort::OORT_ISA
