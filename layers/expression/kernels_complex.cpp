// SPDX-License-Identifier: MIT
#include "layers/expression/generic_kernels.h"

namespace oort::expression {

template Kernel GenericKernel<std::complex<float>>(Function function);
template Kernel GenericKernel<std::complex<double>>(Function function);

}  // namespace oort::expression
