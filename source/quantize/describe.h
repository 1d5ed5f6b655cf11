// SPDX-License-Identifier: MIT
// Parts of the report that follow from numbers already found.
#pragma once

#include <string>

#include "quantize/observer.h"
#include "quantize/quantize.h"

namespace oort::quantize {

size_t WeightBytes(const Graph& graph);

/// What bytes change of the weights of a layer.
ErrorMeter WeightError(const Operator& op, const LayerForm& form);

/// The values of a point as they were observed, and what is to be warned of them.
void DescribeValues(const Observer& observer, PointReport& point, QuantizeReport& report);

/// Names the layers that lose, if the network in bytes is slower.
std::string SlowerWarning(const Speed& speed);

}  // namespace oort::quantize
