// SPDX-License-Identifier: MIT
// Models whose layers keep a state of each sequence: what they cannot do, and how many sequences
// there is room for.
#pragma once

#include <string_view>

#include "oort/engine.h"

namespace oort {

/// What is thrown where such a model is asked for what needs keys and values: a state stands for
/// one position, and nothing of it can be taken back or shared.
Error NotOfStates(const LanguageModelInfo& model, std::string_view what);

/// The same options, with as many running sequences as have room for their states within the
/// memory_limit. Throws kLimit where not even one has; of other models nothing changes.
EngineOptions WithRoomForStates(const LanguageModel& model, const EngineOptions& options);

}  // namespace oort
