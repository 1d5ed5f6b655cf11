// SPDX-License-Identifier: MIT
// Ranks that are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "collectives/collective.h"

namespace oort {

/// A group of so many ranks; each is for one thread.
std::vector<std::unique_ptr<Collective>> MakeLocalGroup(int ranks, double deadline);

}  // namespace oort
