// SPDX-License-Identifier: MIT
// Each rank loads its own part of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "oort/graph.h"
#include "oort/language_model.h"

namespace oort {

/// Loads one rank's part; null: all of the model.
using RankLoader =
    std::function<std::shared_ptr<const LanguageModel>(const std::shared_ptr<RankGroup>& group)>;

/// Makes the ranks that the options ask for, and gives this one's model once all have loaded.
/// `load` runs on several threads at once.
std::shared_ptr<const LanguageModel> LoadOnRanks(const LanguageModelOptions& options,
                                                 const RankLoader& load);

/// The same number where ranks compute the same: of the graph, of samples of its weights, and of
/// how they share it.
uint64_t DigestOf(const Graph& graph, const LanguageModelOptions& options);
/// For the message where they do not.
std::string SummaryOf(const LanguageModelInfo& info, const LanguageModelOptions& options);

}  // namespace oort
