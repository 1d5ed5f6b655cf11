// SPDX-License-Identifier: MIT
// Many requests at once, for `oort bench-llm --batch`.
#pragma once

#include <vector>

#include "cli/constraint_options.h"
#include "cli/language.h"
#include "limits/limits.h"

namespace oort::cli {

/// How the tokens that are measured are picked.
struct PickArguments {
  SamplingOptions sampling;
  ConstraintOptions form;

  void Add(CLI::App& app);
  /// A request of these options for so many tokens behind the first.
  GenerateRequest Request(const LanguageModel& model, int64_t new_tokens) const;
};
/// Throws where an answer ended before it had all tokens: its form may end.
void CheckLength(const GenerateResult& result, int64_t new_tokens);

struct BatchArguments {
  int64_t prompt_tokens = 0, new_tokens = 0;
  std::vector<int64_t> batches;  ///< requests at once, one after the other
  int rounds = 3;
  PickArguments pick;
  bool deterministic = false;
  bool json = false;
};

/// What the model's machine can do, as measured now.
limits::Machine MachineOf(Device device, int threads);

/// How many times as many products of bytes a GPU makes as of 16 bits.
inline constexpr double kByteRate = 2;
/// Of an operator, in products of 16 bits that take as long.
double FlopsOf(const NodeReport& node, const limits::Machine& machine);

/// Prints what each batch reaches, beside what the machine allows.
int BenchBatches(const LanguageOptions& language, const BatchArguments& options);

}  // namespace oort::cli
