// SPDX-License-Identifier: MIT
#include "layers/expression/generic_kernels.h"

namespace oort::expression {

template Kernel GenericKernel<float>(Function function);
template Kernel GenericKernel<double>(Function function);

}  // namespace oort::expression
