// SPDX-License-Identifier: MIT
// LoRA adapters behind a server: models of their own on the weights of another.
#include <future>

#include "kit/paths.h"
#include "kit/peft_adapter.h"
#include "serve/served_model.h"

namespace oort::serve {
namespace {

/// The storyteller with a random adapter "fox".
ServeOptions WithAdapter(const testing::TemporaryFolder& folder) {
  std::mt19937 random(3);
  testing::Matrices tensors;
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name =
        "base_model.model.model.layers." + std::to_string(layer) + ".self_attn.v_proj.lora_";
    tensors[name + "A.weight"] = testing::RandomMatrix(4, 128, random);
    tensors[name + "B.weight"] = testing::RandomMatrix(64, 4, random);
  }
  testing::WritePeft(folder / "fox", tensors, testing::PeftConfig(4, 16));
  ServeOptions options = Options();
  options.served.model = LanguageModel::Load(
      SourceTree() / "models/storyteller", {.adapters = {{"fox", folder / "fox"}}, .exact = true});
  return options;
}

TEST(Adapters, AreModelsOfTheirOwn) {
  const testing::TemporaryFolder folder;
  const Fixture fixture(WithAdapter(folder));
  const Json list = Json::parse(fixture.Get("/v1/models").body)["data"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["id"], "fox");
  EXPECT_EQ(list[1]["parent"], "storyteller");
  EXPECT_EQ(list[0]["parent"], Json());
  const auto ask = [&](const std::string& model) {
    Json request = Chat();
    request["model"] = model;
    const Json body = Json::parse(fixture.Post("/v1/chat/completions", request).body);
    EXPECT_EQ(body["model"], model) << body;
    return body["choices"][0]["message"]["content"].get<std::string>();
  };
  const std::string plain = ask("storyteller"), fox = ask("fox");
  EXPECT_NE(plain, fox);
  // Side by side, each as alone.
  std::vector<std::future<std::string>> answers;
  for (int i = 0; i < 6; ++i) {
    answers.push_back(std::async(std::launch::async, ask, i % 2 == 0 ? "fox" : "storyteller"));
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(answers[static_cast<size_t>(i)].get(), i % 2 == 0 ? fox : plain) << i;
  }
  Json request = Chat();
  request["model"] = "wolf";
  ExpectError(fixture.Post("/v1/chat/completions", request), 404, "model_not_found", "model");
}

}  // namespace
}  // namespace oort::serve
