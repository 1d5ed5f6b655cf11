// SPDX-License-Identifier: MIT
// Layers that are written for f32, and perhaps for f64, taking all float dtypes.
#pragma once

#include "oort/layer.h"

namespace oort {

/// For an operator whose layer takes any dtype but the 16-bit floats: these are converted to f32,
/// and what the layer gives is rounded to their dtype, as torch's kernels do. A layer whose traits
/// say native_f16 gets f16 as it is.
LayerCreator WithHalves(const OperatorSchema& schema, LayerCreator creator);

/// The same for a layer that takes f32 alone, beside one for f64 and what
/// else the schema declares. The weights that the model
/// holds decide which of them is made, so that they are held once; without any both are. Weights of
/// f32 and of 16 bits serve inputs of either kind: pnnx writes a 16-bit network with its own
/// weights, but what it folds, and the operands as traced, in f32.
/// The argument `mask` may be f32 whatever the others are.
LayerCreator WithFloats(const OperatorSchema& schema, LayerCreator f32, LayerCreator plain,
                        std::string mask = "");

}  // namespace oort
