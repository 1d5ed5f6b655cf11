// SPDX-License-Identifier: MIT
// Options that hold answers to a form.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "oort/grammar.h"
#include "oort/language_model.h"

namespace oort::cli {

/// --json-schema, --json-object, --grammar, --regex or --choice.
struct ConstraintOptions {
  std::string schema, grammar, regex;
  std::vector<std::string> choices;
  bool json_object = false;

  void Add(CLI::App& app);
  /// What they ask for; nothing where none is given. Reads files, and throws kIo where it cannot.
  std::optional<GrammarSpec> Spec() const;
  /// Null where none is given.
  std::shared_ptr<const TokenConstraint> Compile(const LanguageModel& model) const;
};

}  // namespace oort::cli
