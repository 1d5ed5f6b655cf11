// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <iostream>

#include "cli/language.h"

namespace oort::cli {
namespace {

struct ChatArguments {
  LanguageOptions language;
  AnswerOptions answer;
  std::string system;
};

/// Reads what the user says. Ctrl-C at the prompt clears the line; nothing is returned at the end.
bool ReadLine(InterruptFlag& interrupt, bool terminal, std::string& line) {
  while (true) {
    if (terminal) std::cout << "> " << std::flush;
    // A terminal hands over whole lines: what is there can be read without waiting again.
    const bool ready = !terminal || std::cin.rdbuf()->in_avail() > 0 || interrupt.WaitForInput();
    if (ready && std::getline(std::cin, line)) return true;
    if (!interrupt.Take()) return false;
    std::cin.clear();
    clearerr(stdin);
    std::cout << "\n(Ctrl-D or /exit leaves, /clear forgets the conversation)\n";
  }
}

void Reply(Engine& engine, const ChatArguments& options, std::vector<ChatMessage>& messages,
           InterruptFlag& interrupt, bool terminal) {
  const std::vector<int32_t> prompt = engine.model().EncodeChat(messages);
  GenerateRequest request = options.answer.Request(prompt);
  request.on_piece = [&](const GeneratedPiece& piece) {
    std::cout << piece.text << std::flush;
    return true;
  };
  const GenerateResult result = Answer(engine, std::move(request), interrupt);
  std::cout << '\n';
  messages.push_back({"assistant", result.text});
  if (!terminal) return;
  if (result.finish == FinishReason::kCancelled) std::cout << "(stopped) ";
  std::cout << "\x1b[2m[" << Summary(prompt.size(), result) << "]\x1b[0m\n";
}

int Chat(const ChatArguments& options) {
  const auto model = options.language.Load();
  EngineOptions engine_options = options.language.ForEngine(*model);
  engine_options.reuse_prefixes = true;
  Engine engine(model, engine_options);
  const bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  InterruptFlag interrupt;
  std::vector<ChatMessage> messages;
  const auto clear = [&] {
    messages.clear();
    if (!options.system.empty()) messages.push_back({"system", options.system});
  };
  clear();
  if (terminal) {
    std::cout << model->info().family << ", " << model->info().layers << " layers, "
              << FormatBytes(static_cast<double>(model->info().file_bytes))
              << "; Ctrl-C stops an answer, /clear forgets, /exit leaves\n";
  }
  std::string line;
  while (ReadLine(interrupt, terminal, line)) {
    if (line == "/exit") break;
    if (line.empty()) continue;
    if (line == "/clear") {
      clear();
      continue;
    }
    messages.push_back({"user", line});
    try {
      Reply(engine, options, messages, interrupt, terminal);
    } catch (const Error& error) {
      // The conversation goes on without what could not be answered.
      messages.pop_back();
      std::cerr << "oort: " << SingleLine(error.what()) << '\n';
      if (!terminal) return 1;
    }
  }
  if (terminal) std::cout << '\n';
  return 0;
}

}  // namespace

Action AddChat(CLI::App& app) {
  auto options = std::make_shared<ChatArguments>();
  options->answer.max_tokens = 1024;
  options->language.Add(app);
  options->language.AddContext(app);
  app.add_option("--system", options->system, "What the model is told to be");
  options->answer.Add(app);
  app.footer("Example: oort chat SmolLM2.gguf --temperature 0.7");
  return [options] { return Chat(*options); };
}

}  // namespace oort::cli
