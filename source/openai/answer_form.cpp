// SPDX-License-Identifier: MIT
#include "openai/answer_form.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/problems.h"

namespace oort::openai {
namespace {

/// The one form that a request asks for, and the field that does.
class FormReader {
 public:
  explicit FormReader(Fields& fields) : fields_(fields) {}

  void ReadAll() {
    ReadResponseFormat();
    Grammar(fields_, "grammar");
    Grammar(fields_, "guided_grammar");
    Regex(fields_, "regex");
    Regex(fields_, "guided_regex");
    Choice(fields_, "guided_choice");
    Schema(fields_, "guided_json");
    Schema(fields_, "json_schema");
    if (const Json* outputs = fields_.Object("structured_outputs")) {
      Fields inner(*outputs, fields_.PathOf("structured_outputs"));
      Grammar(inner, "grammar");
      Regex(inner, "regex");
      Choice(inner, "choice");
      Schema(inner, "json");
      if (inner.Bool("json_object").value_or(false)) {
        Add(inner, "json_object", GrammarSpec::JsonObject());
      }
      inner.CheckAllKnown();
    }
  }

  std::optional<GrammarSpec> spec;
  std::string path;  ///< of the field

 private:
  void Add(Fields& fields, std::string_view key, GrammarSpec given) {
    if (spec) {
      fields.Fail(key, "is one form of the answer too many: there is " + Quote(path) + " already");
    }
    spec = std::move(given);
    path = fields.PathOf(key);
  }

  void ReadResponseFormat() {
    const Json* format = fields_.Object("response_format");
    if (format == nullptr) return;
    Fields inner(*format, fields_.PathOf("response_format"));
    const std::string type(inner.Text("type").value_or(""));
    if (type == "json_schema") {
      const Json* named = inner.Object("json_schema");
      if (named == nullptr) inner.Fail("json_schema", "is missing");
      Fields schema(*named, inner.PathOf("json_schema"));
      schema.Ignore({"name", "description", "strict"});  // answers always keep to it
      Schema(schema, "schema");
      schema.CheckAllKnown();
      if (!spec) schema.Fail("schema", "is missing");
    } else if (type == "json_object") {
      // llama.cpp's server takes a schema here.
      Schema(inner, "schema");
      if (!spec) Add(fields_, "response_format", GrammarSpec::JsonObject());
    } else if (type != "text") {
      inner.Fail("type",
                 "must be \"text\", \"json_object\" or \"json_schema\", not " + Quote(type));
    }
    inner.CheckAllKnown();
  }

  void Grammar(Fields& fields, std::string_view key) {
    const auto text = fields.Text(key);
    if (text && !text->empty()) Add(fields, key, GrammarSpec::Gbnf(std::string(*text)));
  }
  void Regex(Fields& fields, std::string_view key) {
    if (const auto text = fields.Text(key))
      Add(fields, key, GrammarSpec::Regex(std::string(*text)));
  }
  void Choice(Fields& fields, std::string_view key) {
    const Json* list = fields.List(key, kMostChoices);
    if (list == nullptr) return;
    std::vector<std::string> choices;
    for (const Json& choice : *list) {
      if (!choice.is_string()) fields.Fail(key, "must hold texts");
      choices.push_back(choice.get<std::string>());
    }
    Add(fields, key, GrammarSpec::Choice(std::move(choices)));
  }
  /// A schema, or the text of one.
  void Schema(Fields& fields, std::string_view key) {
    const Json* schema = fields.Find(key);
    if (schema == nullptr) return;
    Add(fields, key,
        GrammarSpec::JsonSchema(schema->is_string() ? schema->get<std::string>() : schema->dump()));
  }

  static constexpr size_t kMostChoices = 4096;
  Fields& fields_;
};

}  // namespace

const GrammarCompiler& AnswerForms::For(const LanguageModel& model) {
  const std::lock_guard lock(mutex_);
  if (compiler_ == nullptr) {
    compiler_ = std::make_unique<GrammarCompiler>(model.tokenizer(),
                                                  static_cast<size_t>(model.info().vocabulary));
  }
  return *compiler_;
}

AnswerForm ReadAnswerForm(Fields& fields, const LanguageModel& model, AnswerForms& forms) {
  FormReader reader(fields);
  reader.ReadAll();
  if (!reader.spec) return {};
  const GrammarSpec::Kind kind = reader.spec->kind;
  const bool json =
      kind == GrammarSpec::Kind::kJsonObject || kind == GrammarSpec::Kind::kJsonSchema;
  try {
    return {forms.For(model).Compile(*reader.spec), json};
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    const bool blames_request = code == ErrorCode::kInvalidArgument ||
                                code == ErrorCode::kUnsupported || code == ErrorCode::kLimit;
    if (!blames_request) throw;
    throw RequestError(reader.path, Quote(reader.path) + ": " + error.what());
  }
}

}  // namespace oort::openai
