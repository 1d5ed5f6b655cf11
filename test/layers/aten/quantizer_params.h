// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>

#include "aten_values.h"

namespace oort::testing {

/// The parameters of torch.quantize_per_tensor.
inline std::map<std::string, Parameter> Quantizer(const char* scale, const char* zero_point,
                                                  const char* dtype) {
  return {{"scale", Parameter(scale)},
          {"zero_point", Parameter(zero_point)},
          {"dtype", Parameter(dtype)}};
}

}  // namespace oort::testing
