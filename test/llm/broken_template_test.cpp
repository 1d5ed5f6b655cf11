// SPDX-License-Identifier: MIT
// Models whose chat template is broken: they run, and the template is an error for who uses it.
#include <gtest/gtest.h>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "oort/engine.h"
#include "text/json.h"

namespace oort {
namespace {

namespace fs = std::filesystem;
using testing::ExpectThrows;

/// The storyteller with other templates.
void WriteStoryteller(const fs::path& folder, const json::Json& templates) {
  const fs::path source = SourceTree() / "models" / "storyteller";
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    fs::copy_file(source / name, folder / name);
  }
  json::Json settings =
      json::Parse(testing::FileBytes(source / "tokenizer_config.json"), "settings");
  settings["chat_template"] = templates;
  testing::WriteFile(folder / "tokenizer_config.json", settings.dump());
}

void ExpectBroken(const LanguageModel& model) {
  EXPECT_TRUE(model.has_chat_template());
  EXPECT_EQ(model.chat_template_names(), std::vector<std::string>{"default"});
  EXPECT_NE(model.ChatTemplateProblem().find("line 2"), std::string::npos);
  const ChatMessage message{"user", "Tell me a story."};
  ExpectThrows(
      [&] {
        model.EncodeChat({&message, 1});
      },
      ErrorCode::kInvalidModel, "chat template, line 2");
}

TEST(BrokenTemplate, IsAnErrorOnlyWhereItIsUsed) {
  const testing::TemporaryFolder folder;
  WriteStoryteller(folder / ".", "{{ bos_token }}\n{% if messages %}");
  const auto model = LanguageModel::Load(folder / ".");
  ExpectBroken(*model);
  GenerateRequest request;
  request.prompt = model->tokenizer().Encode("Once upon a time");
  request.max_tokens = 5;
  EXPECT_FALSE(Engine(model).Generate(std::move(request)).text.empty());
  // What is converted is no better and no worse.
  ConvertLanguageModel(folder / ".", folder / "m.pnnx.param", folder / "m.pnnx.bin");
  ExpectBroken(*LanguageModel::Load(folder / "m.pnnx.param"));
}

TEST(BrokenTemplate, HarmsNoOtherTemplate) {
  const testing::TemporaryFolder folder;
  WriteStoryteller(
      folder / ".",
      json::Json::array({{{"name", "default"}, {"template", "{{ messages | length }}"}},
                         {{"name", "tool_use"}, {"template", "{% endfor %}"}}}));
  const auto model = LanguageModel::Load(folder / ".");
  ChatInputs inputs;
  inputs.messages = "[{}]";
  EXPECT_EQ(model->FormatChat(inputs), "1");
  EXPECT_EQ(model->ChatTemplateProblem("default"), "");
  EXPECT_NE(model->ChatTemplateProblem("tool_use"), "");
  inputs.tools = "[{}]";
  ExpectThrows([&] { model->FormatChat(inputs); }, ErrorCode::kInvalidModel, "line 1");
}

}  // namespace
}  // namespace oort
