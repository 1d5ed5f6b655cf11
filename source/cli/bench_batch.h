// SPDX-License-Identifier: MIT
// Many requests at once, for `oort bench-llm --batch`.
#pragma once

#include <vector>

#include "cli/language.h"
#include "limits/limits.h"

namespace oort::cli {

struct BatchArguments {
  int64_t prompt_tokens = 0, new_tokens = 0;
  std::vector<int64_t> batches;  ///< requests at once, one after the other
  int rounds = 3;
  bool deterministic = false;
  bool json = false;
};

/// What the model's machine can do, as measured now.
limits::Machine MachineOf(Device device, int threads);

/// Prints what each batch reaches, beside what the machine allows.
int BenchBatches(const LanguageOptions& language, const BatchArguments& options);

}  // namespace oort::cli
