// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <unordered_set>

#include "cli/batch_file.h"
#include "cli/batch_worker.h"
#include "cli/chart.h"
#include "cli/pictures.h"

namespace oort::cli {
namespace {

using BatchClock = std::chrono::steady_clock;

struct BatchCommand {
  LanguageOptions language;
  PlainOptions plain;
  std::string input, output;
  int64_t requests = 256, cache_tokens = 0;
  bool reproducible = false, json = false;
};

/// What a run has done.
struct BatchCounts {
  int64_t lines = 0;  ///< of the input; 0 while that is not known
  int64_t answered = 0, errors = 0;
  int64_t before = 0;         ///< lines that an earlier run has answered, or that are empty
  int64_t before_errors = 0;  ///< of these, with an error
  int64_t before_answers = 0;
  int64_t prompt_tokens = 0, completion_tokens = 0;

  /// Whether no line has an answer, whichever run looked at it, and some have errors.
  bool Failed() const { return answered + before_answers == 0 && errors + before_errors > 0; }
};

double SecondsSince(BatchClock::time_point start) {
  return std::chrono::duration<double>(BatchClock::now() - start).count();
}

/// "2 h 5 min", "3 min 20 s", "45 s"
std::string FormatDuration(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  const auto part = [](int64_t value, const char* unit) { return std::to_string(value) + unit; };
  if (whole >= 3600) return part(whole / 3600, " h ") + part(whole % 3600 / 60, " min");
  if (whole >= 60) return part(whole / 60, " min ") + part(whole % 60, " s");
  return part(whole, " s");
}

/// A line on stderr that is redrawn, on a terminal: how far it is, how fast, and what is left.
class BatchProgress {
 public:
  explicit BatchProgress(const BatchCounts& counts) : counts_(counts) {}
  ~BatchProgress() {
    if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  }
  BatchProgress(const BatchProgress&) = delete;
  BatchProgress& operator=(const BatchProgress&) = delete;

  void Update() {
    if (!terminal_ || (shown_ && SecondsSince(last_) < 0.1)) return;
    std::cerr << "\r\x1b[K" << Text(SecondsSince(start_)) << std::flush;
    shown_ = true;
    last_ = BatchClock::now();
  }

 private:
  std::string Text(double seconds) const {
    const int64_t now = counts_.answered + counts_.errors;
    const int64_t done = counts_.before + now;
    std::string text = std::to_string(done);
    if (counts_.lines > 0) {
      const double share = static_cast<double>(done) / static_cast<double>(counts_.lines);
      text += " of " + std::to_string(counts_.lines) + " lines  " + Bar(share, 30);
    } else {
      text += " lines";
    }
    const double rate = static_cast<double>(counts_.completion_tokens) / std::max(seconds, 1e-9);
    text += "  " + FormatFixed(rate, 0) + " tokens/s";
    if (counts_.errors > 0) text += "  " + std::to_string(counts_.errors) + " errors";
    if (counts_.lines > 0 && now > 0) {
      const double left = static_cast<double>(counts_.lines - done);
      text += "  " + FormatDuration(seconds * left / static_cast<double>(now)) + " left";
    }
    return text;
  }

  const BatchCounts& counts_;
  bool terminal_ = isatty(STDERR_FILENO) != 0, shown_ = false;
  BatchClock::time_point start_ = BatchClock::now(), last_;
};

/// Feeds lines to a worker and writes down what comes back.
class BatchRun {
 public:
  BatchRun(const BatchCommand& options, BatchWorker& worker)
      : worker_(worker), output_(options.output), input_(options.input, kMostLineBytes) {
    counts_.lines = input_.CountLines();
  }

  /// False where Ctrl-C ended it.
  bool Run() {
    BatchProgress progress(counts_);
    InterruptFlag interrupt;
    const AnswerSink sink = [this](const BatchAnswer& answer) { Write(answer); };
    bool more = true;
    for (bool busy = false; more || busy; busy = worker_.Step(sink)) {
      if (interrupt.Take()) {
        output_.Sync();
        return false;
      }
      while (more && worker_.HasRoom()) more = ReadLine(sink);
      progress.Update();
    }
    output_.Sync();
    return true;
  }

  const BatchCounts& counts() const { return counts_; }

 private:
  static constexpr size_t kMostLineBytes = openai::Limits().body_bytes;

  void Write(const BatchAnswer& answer) {
    output_.Append(answer.line);
    ++(answer.ok ? counts_.answered : counts_.errors);
    counts_.prompt_tokens += answer.prompt_tokens;
    counts_.completion_tokens += answer.completion_tokens;
  }

  /// False behind the last line.
  bool ReadLine(const AnswerSink& sink) {
    std::string text;
    bool cut = false;
    if (!input_.Next(text, cut)) return false;
    if (text.find_first_not_of(" \t") == std::string::npos) {
      ++counts_.before;  // an empty line asks for nothing
      return true;
    }
    BatchLine line;
    line.number = input_.number();
    try {
      if (cut) throw openai::RequestError("", "the line is longer than a request may be");
      ReadBatchLine(text, line);
      if (!line.custom_id.empty() && !ids_.insert(HashOfId(line.custom_id)).second) {
        throw openai::RequestError("custom_id", "another line before has the same custom_id");
      }
    } catch (const openai::RequestError& error) {
      if (!IsAnswered(line)) sink({BadLine(line, error.content()), false, 0, 0});
      return true;
    }
    if (!IsAnswered(line)) worker_.Add(std::move(line), sink);
    return true;
  }

  bool IsAnswered(const BatchLine& line) {
    const AnswerFile::Kept kept = output_.Find(line.number, line.custom_id);
    if (kept == AnswerFile::Kept::kNothing) return false;
    ++counts_.before;
    ++(kept == AnswerFile::Kept::kError ? counts_.before_errors : counts_.before_answers);
    return true;
  }

  BatchWorker& worker_;
  AnswerFile output_;
  LineReader input_;
  BatchCounts counts_;
  std::unordered_set<uint64_t> ids_;
};

void ReportBatch(const BatchCommand& options, const BatchCounts& counts, double seconds) {
  const double rate = static_cast<double>(counts.completion_tokens) / std::max(seconds, 1e-9);
  if (options.json) {
    Print(std::cout, {{"model", options.language.model},
                      {"output", options.output},
                      {"answered", counts.answered},
                      {"errors", counts.errors},
                      {"skipped", counts.before},
                      {"skipped_errors", counts.before_errors},
                      {"prompt_tokens", counts.prompt_tokens},
                      {"completion_tokens", counts.completion_tokens},
                      {"seconds", seconds},
                      {"tokens_per_second", rate}});
    return;
  }
  std::cout << counts.answered << " lines answered, " << counts.errors << " with an error, "
            << counts.before << " skipped";
  if (counts.before_errors > 0) std::cout << " (" << counts.before_errors << " with an error)";
  std::cout << "; " << counts.prompt_tokens << " tokens read, " << counts.completion_tokens
            << " written in " << FormatDuration(seconds) << " (" << FormatFixed(rate, 1)
            << " tokens/s)\n";
}

/// The last part of a path, with or without a slash behind it.
std::string LastPartOf(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::unique_ptr<BatchWorker> MakeWorker(const BatchCommand& options) {
  openai::ServedModel served;
  served.name = LastPartOf(options.language.model);
  if (IsEncoder(options.language.model)) {
    EmbedderOptions encoder;
    encoder.threads = options.language.threads;
    encoder.device = options.language.device.Get();
    return std::make_unique<EmbeddingWorker>(Embedder(options.language.model, encoder),
                                             served.name);
  }
  served.model = options.language.Load();
  served.read_picture = PictureReading(served.model);
  served.any_name = true;  // who names the model on the command line means that one
  EngineOptions engine = options.language.ForEngine(*served.model);
  const int64_t context = engine.cache_tokens > 0
                              ? engine.cache_tokens
                              : std::min<int64_t>(served.model->info().context, 8192);
  served.context = context;
  engine.cache_tokens = std::max(options.cache_tokens, context);
  if (options.cache_tokens == 0) engine.cache_tokens = std::max<int64_t>(context, 16384);
  engine.most_running = options.requests;
  engine.deterministic = options.reproducible;
  return std::make_unique<LanguageWorker>(std::move(served), engine, options.plain,
                                          options.requests);
}

int Batch(BatchCommand& options) {
  if (options.plain.raw && !options.plain.system.empty()) {
    throw UsageError("--system has no place in --raw prompts");
  }
  options.plain.answer.Settle();
  const std::unique_ptr<BatchWorker> worker = MakeWorker(options);
  BatchRun run(options, *worker);
  const BatchClock::time_point start = BatchClock::now();
  const bool whole = run.Run();
  const BatchCounts& counts = run.counts();
  ReportBatch(options, counts, SecondsSince(start));
  if (whole && counts.Failed()) {
    throw Error(ErrorCode::kInvalidArgument,
                "no line of '" + options.input + "' was answered, " +
                    std::to_string(counts.errors + counts.before_errors) + " have an error: see '" +
                    options.output + "'");
  }
  return whole ? 0 : kInterrupted;
}

}  // namespace

Action AddBatch(CLI::App& app) {
  auto options = std::make_shared<BatchCommand>();
  options->language.Add(app);
  options->language.AddContext(app);
  app.add_option(
         "--input", options->input,
         "A request a line: OpenAI's batch format, {\"prompt\": \"…\"}, or a JSON string; - "
         "reads the standard input")
      ->required();
  app.add_option("--output", options->output,
                 "Where an answer a line goes; one that is there is continued")
      ->required();
  app.add_option("--requests", options->requests, "Requests at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--cache-tokens", options->cache_tokens,
                 "Tokens of all requests together that are kept in memory (default: those of one "
                 "context, at least 16384)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_flag("--reproducible", options->reproducible,
               "Bit for bit the answer that each request has alone: slower, since no prefixes are "
               "shared and each request reserves all that it may need");
  app.add_option("--system", options->plain.system, "Plain prompts: what the model is told to be");
  app.add_flag("--raw", options->plain.raw,
               "Plain prompts: they are the text itself, without the chat template");
  options->plain.answer.Add(app);
  app.add_flag("--json", options->json, "Print the summary as JSON");
  app.footer(
      "Options for picking tokens are those of plain prompts: other requests bring their own.\n"
      "A run that was ended, however, goes on where it was when it is started again.\n"
      "Example: oort batch SmolLM2.gguf --input requests.jsonl --output answers.jsonl");
  return [options] { return Batch(*options); };
}

}  // namespace oort::cli
