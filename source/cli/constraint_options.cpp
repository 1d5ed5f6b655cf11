// SPDX-License-Identifier: MIT
#include "cli/constraint_options.h"

#include <functional>

#include "cli/text.h"

namespace oort::cli {
namespace {

/// What was given, where it is the text itself, else what the file of that name holds.
std::string GivenOrRead(const std::string& given, bool is_text) {
  return is_text ? given : ReadTextFile(given);
}

bool IsJson(const std::string& given) {
  const size_t first = given.find_first_not_of(" \t\r\n");
  return first != std::string::npos && given[first] == '{';
}

bool IsGrammar(const std::string& given) { return given.find("::=") != std::string::npos; }

/// Refuses what a shell makes of a variable that is not set: the answer would have no form.
std::function<std::string(const std::string&)> NotEmpty(const std::string& what) {
  return [what](const std::string& given) { return given.empty() ? "is empty: give " + what : ""; };
}

}  // namespace

void ConstraintOptions::Add(CLI::App& app) {
  auto* group = app.add_option_group("Form of the answer", "At most one of these");
  group
      ->add_option("--json-schema", schema,
                   "A file with a JSON Schema that the answer keeps to, or the schema: {…}")
      ->check(NotEmpty("a file with a JSON Schema, or the schema itself"));
  group->add_flag("--json-object", json_object, "The answer is a JSON object");
  group
      ->add_option("--grammar", grammar,
                   "A file with a GBNF grammar of the answer, or the grammar: root ::= …")
      ->check(NotEmpty("a file with a GBNF grammar, or the grammar itself"));
  group->add_option("--regex", regex, "A regular expression that matches the whole answer")
      ->check(NotEmpty("a regular expression"));
  group->add_option("--choice", choices, "The answer is one of these: --choice yes --choice no")
      ->allow_extra_args(false);
  group->require_option(0, 1);
}

std::optional<GrammarSpec> ConstraintOptions::Spec() const {
  if (!schema.empty()) return GrammarSpec::JsonSchema(GivenOrRead(schema, IsJson(schema)));
  if (!grammar.empty()) return GrammarSpec::Gbnf(GivenOrRead(grammar, IsGrammar(grammar)));
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
