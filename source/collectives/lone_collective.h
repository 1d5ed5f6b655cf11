// SPDX-License-Identifier: MIT
// A rank without others, to measure what it computes itself.
#pragma once

#include <memory>

#include "collectives/collective.h"

namespace oort {

/// Rank `rank` of `ranks`, alone: the others hand over what this one does, at once, between GPUs,
/// too. Its results are no answers.
std::unique_ptr<Collective> MakeLoneRank(int rank, int ranks);

}  // namespace oort
