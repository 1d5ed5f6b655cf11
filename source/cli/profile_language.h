// SPDX-License-Identifier: MIT
// The steps of a language model, for `oort profile`.
#pragma once

#include <string>
#include <vector>

#include "cli/language.h"
#include "cli/model.h"
#include "cli/profile_measure.h"

namespace oort::cli {

/// Which steps are looked at.
struct LanguageSteps {
  int64_t prompt_tokens = 128, new_tokens = 64, batch = 1;
  std::optional<bool> exact;
  LanguageOptions shape;  ///< --random, --weights and --group
  bool asked = false;     ///< one of them was given

  void Add(CLI::App& app);
};

struct LanguageStep {
  std::string name;  ///< "prefill" or "decode"
  ProfileReport report;
};

std::vector<LanguageStep> ProfileSteps(const ModelOptions& model, const LanguageSteps& steps,
                                       const MeasuredRuns& measured);

}  // namespace oort::cli
