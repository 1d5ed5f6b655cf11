// SPDX-License-Identifier: MIT
// oort.QuantizedLinear with weights of eight bits, of which each row has one scale.
#pragma once

#include <memory>

#include "layers/quantized_linear/byte_rows.h"
#include "oort/layer.h"

namespace oort {

/// Of what the operator's products are, where it asks for bytes and all its weights are fit.
std::optional<ByteKind> ByteKindOf(const LayerInit& init);
/// The layer with weights as plain rows of bytes.
std::unique_ptr<Layer> MakeByteLinear(const LayerInit& init);

}  // namespace oort
