// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>

#include "oort/language_model.h"
#include "oort/runtime_graph.h"

namespace oort {

/// The graph of the heads in a folder, which guess for the model of `info`; that gets to know of
/// them. `decoder` has logits and argmax, and gets what the heads read as a third output.
std::shared_ptr<const RuntimeGraph> LoadDraftHeads(const std::filesystem::path& folder,
                                                   Graph& decoder, LanguageModelInfo& info,
                                                   LoadOptions load);

}  // namespace oort
