// SPDX-License-Identifier: MIT
// What a language model is beside its graph.
#pragma once

#include "cli/text.h"
#include "oort/language_model.h"

namespace oort::cli {

/// A file that LanguageModel::Load takes, or a .param that `oort convert` wrote from one.
bool HoldsLanguageModel(const std::string& path);

void PrintLanguageInfo(const LanguageModel& model);
Json LanguageInfoJson(const LanguageModel& model);

}  // namespace oort::cli
