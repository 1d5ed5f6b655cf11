// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include "cli/language.h"
#include "cli/pictures.h"
#include "oort/tool_calls.h"

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
    std::cout << "\n(Ctrl-D or /exit leaves, /clear forgets the conversation, /help says more)\n";
  }
}

/// Writes an answer while it comes. Of a model that answers in channels (harmony) its reasoning is
/// shown to people alone, and dimmed.
class AnswerWriter {
 public:
  AnswerWriter(const LanguageModel& model, bool terminal) : terminal_(terminal) {
    if (!IsHarmony(model.ChatTemplateSource())) return;
    AnswerParserOptions options;
    options.harmony = true;
    parser_.emplace(options);
    for (const char* end : {"<|return|>", "<|call|>"}) {
      if (const auto token = model.tokenizer().IdOf(end)) ends_.push_back(*token);
    }
  }

  ~AnswerWriter() { Dim(false); }
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  void Join(GenerateRequest& request) {
    request.special_text = parser_.has_value();
    request.stop_tokens = ends_;
    request.on_piece = [this](const GeneratedPiece& piece) {
      parser_ ? Write(parser_->Push(piece.text)) : Write({std::string(piece.text), {}, {}});
      return true;
    };
  }
  /// What the answer says, without its reasoning.
  std::string Finish() {
    if (parser_) Write(parser_->Finish());
    Dim(false);
    return content_;
  }

 private:
  void Write(const AnswerDelta& delta) {
    if (terminal_ && !delta.reasoning.empty()) {
      Dim(true);
      std::cout << delta.reasoning << std::flush;
    }
    if (delta.content.empty()) return;
    if (dimmed_) {
      Dim(false);
      std::cout << '\n';
    }
    content_ += delta.content;
    std::cout << delta.content << std::flush;
  }
  void Dim(bool dimmed) {
    if (dimmed != dimmed_) std::cout << (dimmed ? "\x1b[2m" : "\x1b[0m") << std::flush;
    dimmed_ = dimmed;
  }

  const bool terminal_;
  bool dimmed_ = false;
  std::optional<AnswerParser> parser_;
  std::vector<int32_t> ends_;
  std::string content_;
};

/// A talk, and what of it the model still sees.
class Conversation {
 public:
  Conversation(Engine& engine, const std::shared_ptr<const LanguageModel>& model,
               const ChatArguments& options)
      : engine_(engine), reader_(model), options_(options) {
    Clear();
  }

  void Clear() {
    messages_.clear();
    pictures_.clear();
    if (!options_.system.empty()) messages_.push_back({"system", options_.system, {}});
  }

  /// The next message is about this picture, too.
  void Show(const std::string& path) {
    pictures_.push_back(reader_.Read(std::filesystem::path(path)));
  }

  /// Answers one more message; after an Error all is as before it.
  void Reply(const std::string& text, InterruptFlag& interrupt, bool terminal) {
    CheckPrompt(text);
    messages_.push_back({"user", text, pictures_});
    try {
      Answer(interrupt, terminal);
    } catch (...) {
      messages_.pop_back();
      throw;
    }
    pictures_.clear();
  }

 private:
  /// Messages that the oldest turns come behind.
  size_t begin() const { return options_.system.empty() ? 0 : 1; }

  /// The tokens of the talk. Where they leave too little room for an answer, the oldest turns go;
  /// the last message stays, whatever its size.
  EncodedTalk Prompt() {
    const int64_t room = std::min(engine_.cache_tokens(), engine_.model().info().context);
    const int64_t answer = std::min(options_.answer.max_tokens, room / 4);
    std::vector<Said> kept = messages_;
    EncodedTalk talk = EncodeTalk(engine_.model(), kept);
    while (std::ssize(talk.tokens) > room - answer && kept.size() > begin() + 2) {
      const auto oldest = kept.begin() + static_cast<ptrdiff_t>(begin());
      kept.erase(oldest, oldest + 2);  // a question and its answer
      talk = EncodeTalk(engine_.model(), kept);
    }
    if (std::ssize(talk.tokens) > room) {
      throw Error(ErrorCode::kLimit, "the message has " + std::to_string(talk.tokens.size()) +
                                         " tokens, the context " + std::to_string(room) +
                                         ": say it in fewer words, or raise --context");
    }
    if (kept.size() < messages_.size()) {
      if (!told_) {
        std::cerr << "oort: the context of " << room
                  << " tokens is full: the model forgets the oldest turns from here on\n";
      }
      told_ = true;
      messages_ = std::move(kept);
    }
    return talk;
  }

  void Answer(InterruptFlag& interrupt, bool terminal) {
    const EncodedTalk talk = Prompt();
    GenerateRequest request = options_.answer.Request(talk.tokens);
    request.pictures = talk.pictures;
    AnswerWriter writer(engine_.model(), terminal);
    writer.Join(request);
    const GenerateResult result = cli::Answer(engine_, std::move(request), interrupt);
    messages_.push_back({"assistant", writer.Finish(), {}});
    std::cout << '\n';
    if (!terminal) return;
    if (result.finish == FinishReason::kCancelled) std::cout << "(stopped) ";
    std::cout << "\x1b[2m[" << Summary(talk.tokens.size(), result) << "]\x1b[0m\n";
  }

  Engine& engine_;
  PictureReader reader_;
  const ChatArguments& options_;
  std::vector<Said> messages_;
  Pictures pictures_;  ///< of the next message
  bool told_ = false;  ///< that turns were left out
};

constexpr const char* kHelp =
    "/clear  forget the conversation\n"
    "/image FILE  show a picture with the next message\n"
    "/exit   leave (Ctrl-D, too)\n"
    "/help   show this\n"
    "Ctrl-C  stop an answer\n";

/// Whether the line is a slash and one word, which no message is.
bool IsCommand(const std::string& line) {
  return line.size() > 1 && line[0] == '/' &&
         std::all_of(line.begin() + 1, line.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

/// What was said, line by line, to the end of the input. Through a pipe a line that cannot be
/// answered is told with its number; the others go on. Returns whether all were answered.
bool Talk(Conversation& conversation, InterruptFlag& interrupt, bool terminal) {
  bool answered = true;
  std::string line;
  for (int64_t number = 1; ReadLine(interrupt, terminal, line); ++number) {
    if (line == "/exit") break;
    if (line.empty()) continue;
    try {
      constexpr std::string_view kImage = "/image ";
      if (line.starts_with(kImage)) {
        conversation.Show(line.substr(kImage.size()));
      } else if (line == "/clear") {
        conversation.Clear();
      } else if (line == "/help") {
        std::cout << kHelp;
      } else if (IsCommand(line)) {
        throw Error(ErrorCode::kNotFound, "no command " + line + "; /help lists them");
      } else {
        conversation.Reply(line, interrupt, terminal);
      }
    } catch (const Error& error) {
      std::cout.flush();
      answered = false;
      std::cerr << "oort: " << (terminal ? "" : "line " + std::to_string(number) + ": ")
                << SingleLine(error.what()) << '\n';
    }
  }
  return answered;
}

int Chat(ChatArguments& options) {
  options.answer.Settle();
  const auto model = options.language.Load();
  Engine engine(model, options.language.ForEngine(*model));
  const bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  InterruptFlag interrupt;
  Conversation conversation(engine, model, options);
  if (!terminal) return Talk(conversation, interrupt, terminal) ? 0 : 1;
  std::cout << model->info().family << ", " << model->info().layers << " layers, "
            << FormatBytes(static_cast<double>(model->info().file_bytes))
            << "; Ctrl-C stops an answer, /help lists commands, /exit leaves\n";
  Talk(conversation, interrupt, terminal);
  std::cout << '\n';
  return 0;
}

}  // namespace

Action AddChat(CLI::App& app) {
  auto options = std::make_shared<ChatArguments>();
  options->answer.max_tokens = 1024;
  options->language.Add(app);
  options->language.AddRanks(app);
  options->language.AddContext(app);
  options->language.AddDraft(app);
  app.add_option("--system", options->system, "What the model is told to be");
  options->answer.Add(app);
  app.footer(
      "Where the context is full, the oldest turns leave it. Lines from a pipe are answered one "
      "by\n"
      "one; the exit code is 1 if one of them could not be.\n"
      "Example: oort chat SmolLM2.gguf --temperature 0.7");
  return [options] { return Chat(*options); };
}

}  // namespace oort::cli
