// SPDX-License-Identifier: MIT
// Lets layers whose kernels are written for f32 take the other floating-point types.
#pragma once

#include <string>

#include "oort/layer.h"

namespace oort {

inline constexpr DTypeSet kHalves = DType::kF16 | DType::kBF16;

/// Makes layers that compute in f32 what comes in one of the `others`: inputs are converted on the
/// way in and outputs on the way out. `lead` names the input whose dtype is that of the outputs;
/// where the schema has none of that name, it is the first floating-point input.
LayerCreator InF32(LayerCreator creator, std::string lead = "input",
                   DTypeSet others = kHalves | DType::kF64);

}  // namespace oort
