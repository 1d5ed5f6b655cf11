// SPDX-License-Identifier: MIT
// oort.QuantizedLinear with weights of eight bits a row and, where there are many rows, activations
// of eight bits.
#pragma once

#include <memory>

#include "oort/layer.h"

namespace oort {

/// Whether the operator asks for such products, and all its weights are fit for them.
bool MultipliesBytes(const LayerInit& init);
std::unique_ptr<Layer> MakeByteLinear(const LayerInit& init);

}  // namespace oort
