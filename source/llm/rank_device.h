// SPDX-License-Identifier: MIT
// Ranks on GPUs: which one is whose, and how they are connected.
#pragma once

#include "llm/rank_group.h"
#include "oort/language_model.h"

namespace oort {

/// Where this rank computes. All ranks of a group call it.
Device DeviceOfRank(const LanguageModelOptions& options, RankGroup& group);

/// All ranks call it once they have loaded, with the device that is theirs. Throws where NCCL is
/// asked for and cannot be taken.
void ConnectGpus(Collective& group, const LanguageModelOptions& options);

}  // namespace oort
