// SPDX-License-Identifier: MIT
// Checkpoints of the shape of well-known models with random weights: to measure speed at size
// without a download.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "parser/checkpoint/checkpoint.h"

namespace oort {

/// "llama2-7b", …
std::vector<std::string_view> RandomModelNames();

/// `weights`: bf16, f16, int8 or int4, in groups of `group`; embeddings and head have them, too.
/// All matrices look at the same random numbers, so that the host never holds more than those of
/// the largest. Throws kInvalidArgument for a name that is none of RandomModelNames.
std::unique_ptr<Checkpoint> MakeRandomCheckpoint(std::string_view name, std::string_view weights,
                                                 int64_t group);

}  // namespace oort
