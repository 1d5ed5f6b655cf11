// SPDX-License-Identifier: MIT
#include "cli/language_info.h"

#include <filesystem>
#include <iostream>

#include "oort/pnnx.h"
#include "oort/source.h"

namespace oort::cli {

bool HoldsLanguageModel(const std::string& path) {
  if (IsLanguageModel(path)) return true;
  if (std::filesystem::path(path).extension() != ".param") return false;
  try {
    return ReadPnnxParam(*ByteSource::File(path)).FindOperator("oort.language_model") >= 0;
  } catch (const Error&) {
    return false;  // who loads it says what is wrong
  }
}

void PrintLanguageInfo(const LanguageModel& model) {
  const LanguageModelInfo& info = model.info();
  const auto number = [](int64_t value) { return std::to_string(value); };
  Table table({{"language model"}, {info.family}});
  table.Row({"layers", number(info.layers) + " of " + number(info.hidden)});
  const std::string of_keys = ", " + number(info.kv_heads) + " of keys and values";
  table.Row({"heads", number(info.heads) + (info.state_bytes > 0 ? "" : of_keys) + ", each of " +
                          number(info.head_dim)});
  if (info.state_bytes > 0) {
    table.Row({"state of a sequence", FormatBytes(static_cast<double>(info.state_bytes))});
  }
  table.Row({"vocabulary", number(info.vocabulary)});
  table.Row({"context", number(info.context)});
  table.Row({"file", FormatBytes(static_cast<double>(info.file_bytes))});
  table.Row({"tokenizer", model.has_tokenizer() ? "yes" : "none"});
  if (!model.has_chat_template()) table.Row({"chat template", "none"});
  for (const std::string& name : model.chat_template_names()) {
    const std::string problem = model.ChatTemplateProblem(name);
    table.Row({"chat template",
               SingleLine(name) + (problem.empty() ? "" : ", unusable: ") + SingleLine(problem)});
  }
  table.Print(std::cout);
  std::cout << '\n';
}

Json LanguageInfoJson(const LanguageModel& model) {
  const LanguageModelInfo& info = model.info();
  Json templates = Json::array();
  for (const std::string& name : model.chat_template_names()) {
    const std::string problem = model.ChatTemplateProblem(name);
    templates.push_back({{"name", name}, {"problem", problem.empty() ? Json() : Json(problem)}});
  }
  return {
      {"family", info.family},
      {"layers", info.layers},
      {"hidden", info.hidden},
      {"heads", info.heads},
      {"kv_heads", info.kv_heads},
      {"head_dim", info.head_dim},
      {"vocabulary", info.vocabulary},
      {"context", info.context},
      {"weight_bytes", info.weight_bytes},
      {"file_bytes", info.file_bytes},
      {"state_bytes", info.state_bytes},
      {"tokenizer", model.has_tokenizer()},
      {"end_tokens", std::vector<int32_t>(model.end_tokens().begin(), model.end_tokens().end())},
      {"chat_templates", templates}};
}

}  // namespace oort::cli
