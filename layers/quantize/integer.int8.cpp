// SPDX-License-Identifier: MIT
// Integer kernels, on units that multiply tiles of bytes.
#include "layers/quantize/integer_amx.h"

namespace oort::OORT_ISA {

const IntegerKernels& IntegerKernelsGet() { return kTileKernels; }

}  // namespace oort::OORT_ISA
