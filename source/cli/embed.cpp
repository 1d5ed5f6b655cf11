// SPDX-License-Identifier: MIT
#include <chrono>
#include <iostream>

#include "cli/device_option.h"
#include "cli/embed_options.h"
#include "cli/text.h"
#include "cli/text_reader.h"
#include "core/file_writer.h"
#include "oort/npy.h"
#include "openai/json_writer.h"

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
                 "An encoder: a folder of Hugging Face, or one that tools/export-encoder.py wrote")
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
  AddThreads(app, options->threads);
  app.add_flag("--json", options->json, "Print the summary as JSON");
  app.footer("Example: oort embed minilm --input sentences.txt --output vectors.npy");
  return [options] { return Embed(*options); };
}

}  // namespace oort::cli
