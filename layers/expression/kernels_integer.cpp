// SPDX-License-Identifier: MIT
#include "layers/expression/generic_kernels.h"

namespace oort::expression {

template Kernel GenericKernel<int8_t>(Function function);
template Kernel GenericKernel<uint8_t>(Function function);
template Kernel GenericKernel<int16_t>(Function function);
template Kernel GenericKernel<int32_t>(Function function);
template Kernel GenericKernel<int64_t>(Function function);
template Kernel GenericKernel<Bool>(Function function);

}  // namespace oort::expression
