// SPDX-License-Identifier: MIT
#include "cli/constraint_options.h"

#include "cli/text.h"

namespace oort::cli {
void ConstraintOptions::Add(CLI::App& app) {
  auto* group = app.add_option_group("Form of the answer", "At most one of these");
  group->add_option("--json-schema", schema_file,
                    "A file with a JSON Schema that the answer keeps to");
  group->add_flag("--json-object", json_object, "The answer is a JSON object");
  group->add_option("--grammar", grammar_file, "A file with a GBNF grammar of the answer");
  group->add_option("--regex", regex, "A regular expression that matches the whole answer");
  group->add_option("--choice", choices, "The answer is one of these: --choice yes --choice no")
      ->allow_extra_args(false);
  group->require_option(0, 1);
}

std::optional<GrammarSpec> ConstraintOptions::Spec() const {
  if (!schema_file.empty()) return GrammarSpec::JsonSchema(ReadTextFile(schema_file));
  if (!grammar_file.empty()) return GrammarSpec::Gbnf(ReadTextFile(grammar_file));
  if (!regex.empty()) return GrammarSpec::Regex(regex);
  if (!choices.empty()) return GrammarSpec::Choice(choices);
  if (json_object) return GrammarSpec::JsonObject();
  return {};
}

std::shared_ptr<const TokenConstraint> ConstraintOptions::Compile(
    const LanguageModel& model) const {
  const std::optional<GrammarSpec> spec = Spec();
  if (!spec) return nullptr;
  const GrammarCompiler compiler(model.tokenizer(), static_cast<size_t>(model.info().vocabulary));
  return compiler.Compile(*spec);
}

}  // namespace oort::cli
