// SPDX-License-Identifier: MIT
// Small templates against what transformers made of them (make_chat_goldens.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "kit/paths.h"
#include "oort/chat_template.h"
#include "oort/error.h"

namespace oort {
namespace {

TEST(JinjaGolden, RendersWhatTransformersRenders) {
  std::ifstream file(TestData() / "llm/chat_goldens.json");
  const auto golden = nlohmann::json::parse(file);
  ASSERT_GT(golden["cases"].size(), 200u);
  for (const auto& expected : golden["cases"]) {
    ChatInputs inputs;
    inputs.messages = expected.value("messages", golden["messages"].get<std::string>());
    inputs.variables = expected.value("variables", golden["variables"].get<std::string>());
    inputs.tools = expected.value("tools", "");
    inputs.add_generation_prompt = expected.value("add_generation_prompt", false);
    inputs.now = ChatTime{2024, 7, 6, 15, 4, 5};
    const std::string source = expected["template"];
    try {
      const std::string text = ChatTemplate::Parse(source).Render(inputs);
      if (expected.contains("text")) {
        EXPECT_EQ(text, expected["text"].get<std::string>()) << source;
      } else {
        ADD_FAILURE() << source << "\nrenders " << text << "\nwhere jinja2 raises "
                      << expected["kind"];
      }
    } catch (const Error& error) {
      if (expected.contains("text")) {
        ADD_FAILURE() << source << "\nfails with " << error.what();
      } else {
        // What the template says itself is part of the answer.
        EXPECT_TRUE(std::string_view(error.what()).ends_with(expected["error"].get<std::string>()))
            << error.what();
        EXPECT_NE(std::string_view(error.what()).find("line 1"), std::string_view::npos)
            << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace oort
