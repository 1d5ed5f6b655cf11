// SPDX-License-Identifier: MIT
#pragma once

#include "oort/layer.h"

namespace oort {

/// The dtype that torch's `dtype=` asked for: the parameter where it is written, else the traced
/// dtype of the first output, because pnnx drops the parameter; kNull where neither is known.
inline DType WantedDType(const LayerInit& init) {
  if (const Value& dtype = init.Constant("dtype"); dtype.IsString()) {
    return ParseDType(dtype.AsString());
  }
  return init.outputs().empty() ? DType::kNull : init.outputs()[0]->dtype;
}

}  // namespace oort
