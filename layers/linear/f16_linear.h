// SPDX-License-Identifier: MIT
#pragma once

#include "oort/layer.h"

namespace oort {

/// `other`, except where the narrow-floats pass has prepared the operator for f16: then a layer
/// that takes f16, computes in f16 and gives f16.
LayerCreator OrF16Linear(LayerCreator other);

}  // namespace oort
