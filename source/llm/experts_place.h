// SPDX-License-Identifier: MIT
// Whether the experts of a mixture are multiplied on a GPU.
#pragma once

#include <cstddef>

#include "oort/device.h"
#include "oort/graph.h"

namespace oort {

/// Whether so many bytes of weights leave a tenth of the free ones to the cache and all the rest.
constexpr bool FitWeights(size_t weights, size_t free) { return weights / 9 <= free / 10; }

/// Where a GPU has no memory for all weights, those of experts stay on the host: a step reads few
/// of them.
void PlaceExperts(Graph& graph, Device device);
/// The same with so many bytes free.
void PlaceExperts(Graph& graph, size_t free);

}  // namespace oort
