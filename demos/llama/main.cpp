// SPDX-License-Identifier: MIT
// A language model in sixty lines: loads it, answers a prompt and writes the words as they come.
//   build/demos/llama MODEL "What is the capital of France?" [TEMPERATURE]
#include <oort/engine.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

int Answer(const std::string& path, const std::string& question, float temperature) {
  // Weights are read and packed once; any number of engines may share the model.
  const auto model = oort::LanguageModel::Load(path);
  const oort::LanguageModelInfo& info = model->info();
  std::fprintf(stderr, "%s: %d layers, %d tokens of context\n", info.family.c_str(),
               static_cast<int>(info.layers), static_cast<int>(info.context));

  // A model that was trained on conversations brings a template for them; another goes on with the
  // text it is given.
  const oort::ChatMessage message{"user", question};
  oort::GenerateRequest request;
  request.prompt = model->has_chat_template() ? model->EncodeChat({&message, 1})
                                              : model->tokenizer().Encode(question);
  request.max_tokens = 256;
  request.sampling.temperature = temperature;
  request.on_piece = [](const oort::GeneratedPiece& piece) {
    std::cout << piece.text << std::flush;
    return true;  // false would end the answer here
  };

  oort::Engine engine(model);
  const size_t prompt_tokens = request.prompt.size();
  const oort::GenerateResult result = engine.Generate(std::move(request));
  const double prompt = result.timings.prompt_seconds, answer = result.timings.generate_seconds;
  std::fprintf(stderr, "\n%zu tokens read at %.0f a second, %zu written at %.0f a second (%s)\n",
               prompt_tokens, static_cast<double>(prompt_tokens) / prompt, result.tokens.size(),
               static_cast<double>(result.tokens.size() - 1) / (answer > 0 ? answer : 1),
               std::string(oort::Name(result.finish)).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: llama MODEL QUESTION [TEMPERATURE]\n";
    return 2;
  }
  try {
    return Answer(argv[1], argv[2], argc > 3 ? std::strtof(argv[3], nullptr) : 0.0f);
  } catch (const oort::Error& error) {
    std::cerr << "llama: " << error.what() << '\n';
    return 1;
  }
}
