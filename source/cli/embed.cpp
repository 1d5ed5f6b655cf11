// SPDX-License-Identifier: MIT
#include <chrono>
#include <fstream>
#include <iostream>

#include "cli/batch_lines.h"
#include "cli/device_option.h"
#include "cli/embed_options.h"
#include "cli/text.h"
#include "core/cpu_limits.h"
#include "core/file_writer.h"
#include "oort/npy.h"
#include "openai/json_writer.h"
#include "text/utf8.h"

namespace oort::cli {
namespace {

struct EmbedArguments {
  std::string model, input, output;
  DeviceOption device;
  PoolingOptions pooling;
  int64_t max_tokens = 0;
  int threads = 0;
  bool json = false;
};

constexpr size_t kMostTextBytes = size_t{4} << 20;
constexpr size_t kTextsAtATime = 1024;

/// A line of a .jsonl: a string, or an object with "text" or "input".
std::string TextOfJson(const std::string& line, const std::string& where) {
  const json::Json value = json::Parse(line, where);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    for (const char* key : {"text", "input"}) {
      const auto found = value.find(key);
      if (found != value.end() && found->is_string()) return found->get<std::string>();
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              where + ": expected a string, or an object with a string \"text\"");
}

/// Texts of a file, some at a time; a line is a text.
class TextReader {
 public:
  explicit TextReader(const std::string& path)
      : path_(path), lines_(path, kMostTextBytes), json_(path.ends_with(".jsonl")) {}

  /// Empty behind the last.
  std::vector<std::string> Next() {
    std::vector<std::string> texts;
    std::string line;
    bool cut = false;
    while (texts.size() < kTextsAtATime && lines_.Next(line, cut)) {
      const std::string where = path_ + ", line " + std::to_string(lines_.number());
      if (cut) throw Error(ErrorCode::kLimit, where + ": longer than 4 MiB");
      if (!text::IsValidUtf8(line)) {
        throw Error(ErrorCode::kInvalidArgument, where + ": no valid UTF-8");
      }
      texts.push_back(json_ ? TextOfJson(line, where) : line);
    }
    return texts;
  }

 private:
  std::string path_;
  LineReader lines_;
  bool json_;
};

/// Vectors as .npy, which must know how many there are, or as a list of numbers a line.
class VectorWriter {
 public:
  explicit VectorWriter(std::string path) : path_(std::move(path)) {
    if (path_.ends_with(".jsonl")) lines_.emplace(path_);
  }

  void Add(const Embeddings& embeddings) {
    if (!lines_) {
      values_.insert(values_.end(), embeddings.values.begin(), embeddings.values.end());
      return;
    }
    const size_t count = embeddings.values.size() / static_cast<size_t>(embeddings.dimensions);
    for (size_t i = 0; i < count; ++i) {
      openai::JsonWriter out;
      out.Open('[');
      for (const float value : embeddings[i]) out.Number(value);
      lines_->Write(out.Close(']').Take() + "\n");
    }
  }

  void Finish(int64_t texts, int64_t dimensions) {
    if (lines_) {
      lines_->Finish();
      lines_->Publish();
    } else {
      WriteNpy(path_, Tensor::From(std::span<const float>(values_), {texts, dimensions}));
    }
  }

 private:
  std::string path_;
  std::optional<FileWriter> lines_;
  std::vector<float> values_;
};

int Embed(const EmbedArguments& options) {
  if (!options.output.ends_with(".npy") && !options.output.ends_with(".jsonl")) {
    throw UsageError("--output is a .npy or a .jsonl file");
  }
  EmbedderOptions load;
  options.pooling.Apply(load);
  load.max_tokens = options.max_tokens;
  load.threads = options.threads;
  load.device = options.device.Get();
  Embedder embedder(options.model, load);
  TextReader reader(options.input);
  VectorWriter writer(options.output);
  const auto start = std::chrono::steady_clock::now();
  int64_t texts = 0, tokens = 0, truncated = 0;
  for (auto some = reader.Next(); !some.empty(); some = reader.Next()) {
    const Embeddings embeddings = embedder.Embed(some);
    writer.Add(embeddings);
    texts += static_cast<int64_t>(some.size());
    tokens += embeddings.tokens;
    truncated += embeddings.truncated;
  }
  writer.Finish(texts, embedder.dimensions());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double rate = static_cast<double>(tokens) / std::max(seconds.count(), 1e-9);
  if (options.json) {
    Print(std::cout, {{"model", options.model},
                      {"output", options.output},
                      {"texts", texts},
                      {"dimensions", embedder.dimensions()},
                      {"tokens", tokens},
                      {"truncated", truncated},
                      {"seconds", seconds.count()},
                      {"tokens_per_second", rate}});
    return 0;
  }
  std::cout << texts << " texts as vectors of " << embedder.dimensions() << " numbers; " << tokens
            << " tokens, " << FormatFixed(rate, 0) << " tokens/s";
  if (truncated > 0) {
    std::cout << "; " << truncated << " texts were cut to " << embedder.max_tokens() << " tokens";
  }
  std::cout << '\n';
  return 0;
}

}  // namespace

Action AddEmbed(CLI::App& app) {
  auto options = std::make_shared<EmbedArguments>();
  app.add_option("MODEL", options->model,
                 "A folder that tools/export-encoder.py wrote: graph, tokenizer and pooling")
      ->required();
  app.add_option("--input", options->input,
                 "A text a line, or a .jsonl of strings or of objects with a \"text\"; - reads the "
                 "standard input")
      ->required();
  app.add_option("--output", options->output, "A .npy, or a .jsonl with a list of numbers a line")
      ->required();
  options->pooling.Add(app);
  app.add_option("--max-tokens", options->max_tokens,
                 "Tokens of a text at most; the rest is cut off (default: as the model says)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  options->device.Add(app);
  app.add_option("--threads", options->threads,
                 "Threads; 0, the default: all that the process may use")
      ->type_name("N")
      ->check(CLI::Range(0, kMostThreads));
  app.add_flag("--json", options->json, "Print the summary as JSON");
  app.footer("Example: oort embed minilm --input sentences.txt --output vectors.npy");
  return [options] { return Embed(*options); };
}

}  // namespace oort::cli
