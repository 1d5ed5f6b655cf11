// SPDX-License-Identifier: MIT
// What `oort quantize` says of a network that it quantized: as tables, as JSON and as a page.
#pragma once

#include <ostream>
#include <string>

#include "cli/text.h"
#include "quantize/quantize.h"

namespace oort::cli {

void PrintQuantizeReport(std::ostream& out, const quantize::QuantizeReport& report);
Json QuantizeJson(const quantize::QuantizeReport& report);
/// A page that opens without a network.
std::string QuantizeHtml(const std::string& model, const quantize::QuantizeReport& report);

/// The quantized layers, that first whose rounding alone changes the answers most; without such
/// figures, as they stand in the network.
std::vector<const quantize::LayerReport*> RankedLayers(const quantize::QuantizeReport& report);

}  // namespace oort::cli
