// SPDX-License-Identifier: MIT
// The storyteller with another chat template: models that know tools and reasoning are larger.
#pragma once

#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "kit/files.h"
#include "kit/paths.h"

namespace oort::testing {

/// A template that knows tools and results of these, and with `think` ends in the middle of
/// reasoning. `mark` is what tells how calls are written.
inline std::string ToolTemplate(const std::string& mark) {
  return "{{ bos_token }}{% if tools %}{{ '<|user|>" + mark +
         "' }}{% for tool in tools %}{{ ' ' + tool.function.name }}{% endfor %}{{ eos_token }}"
         "{% endif %}{% for message in messages %}"
         "{{ '<|assistant|>' if message.role == 'assistant' else '<|user|>' }}"
         "{{ message.content or '' }}{% for call in message.tool_calls or [] %}"
         "{{ '[' + call.function.name + (call.function.arguments | tojson) + ']' }}{% endfor %}"
         "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}"
         "{% if think %}{{ '<think>' }}{% endif %}{% endif %}";
}

/// The path of a model that is the storyteller but for its template. Every call makes a folder of
/// its own, which goes away with the process: ctest runs tests of one program side by side.
inline std::filesystem::path StorytellerWith(const std::string& chat_template) {
  namespace fs = std::filesystem;
  static std::deque<TemporaryFolder> folders;
  const fs::path source = SourceTree() / "models/storyteller";
  const fs::path& folder = folders.emplace_back().path();
  for (const char* file :
       {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}) {
    fs::copy_file(source / file, folder / file);
  }
  nlohmann::json config = nlohmann::json::parse(std::ifstream(source / "tokenizer_config.json"));
  config["chat_template"] = chat_template;
  std::ofstream(folder / "tokenizer_config.json") << config;
  return folder;
}

}  // namespace oort::testing
