// SPDX-License-Identifier: MIT
// Renders chat templates for tools/check-chat-templates: each line of standard input is a JSON
// object with the template and its inputs (as JSON text in strings), each line of output one with
// the text or the error.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "oort/chat_template.h"
#include "oort/error.h"

namespace {

nlohmann::json Answer(const nlohmann::json& request) {
  try {
    const auto chat = oort::ChatTemplate::Parse(request["template"].get<std::string>());
    oort::ChatInputs inputs;
    inputs.messages = request.value("messages", "");
    inputs.tools = request.value("tools", "");
    inputs.documents = request.value("documents", "");
    inputs.variables = request.value("variables", "");
    inputs.add_generation_prompt = request.value("add_generation_prompt", false);
    inputs.now = oort::ChatTime{2024, 7, 26, 15, 4, 5};
    return {{"text", chat.Render(inputs)}};
  } catch (const oort::Error& error) {
    return {{"error", error.what()}, {"code", oort::Name(error.code())}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(nlohmann::json::parse(line)).dump() << "\n";
  }
}
