// SPDX-License-Identifier: MIT
// An encoder of text and how texts go through it in batches, for those who make vectors or scores
// of what it says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "oort/device.h"
#include "oort/isa.h"
#include "oort/precision.h"
#include "oort/session.h"
#include "oort/tokenizer.h"
#include "parser/huggingface/text_encoder.h"

namespace oort {

enum class TextInput : unsigned char;

struct TextEncoderOptions {
  int64_t batch_tokens = 4096;  ///< that run at a time, padding included
  int threads = 0;
  Precision precision = Precision::kF32;
  Isa isa = DefaultIsa();
  Device device;
  bool with_head = false;  ///< the head's scores instead of hidden states
  std::stop_token stop;    ///< of the load
  ProgressFunction progress;
};

/// Texts that run together: their places among all, and the length that they are padded to.
struct TextBatch {
  std::vector<size_t> texts;
  size_t length = 0;
};

/// Thread contract: one thread at a time.
class TextEncoder {
 public:
  /// A graph with its weights (model.pnnx.param), or a folder of Hugging Face.
  TextEncoder(const std::filesystem::path& folder, const TextEncoderOptions& options);

  /// Tokens of a text that the model takes; 0: a graph does not say.
  int64_t most_tokens() const { return config_.context; }
  /// Texts are not padded beyond so many, which a graph may have no positions for.
  void SetLongest(int64_t tokens) { longest_ = tokens; }
  /// Empty for a graph.
  const TextEncoderConfig& config() const { return config_; }

  /// Texts of similar length run together, so that little is padded, the longest first. `types`:
  /// of the tokens of each text, or empty where all are 0. `take` gets what each batch gives.
  void Run(std::span<const std::vector<int32_t>> texts, std::span<const std::vector<int32_t>> types,
           const std::stop_token& stop,
           const std::function<void(const TextBatch&, const Tensor&)>& take);

 private:
  struct Columns;
  void LoadGraph(const std::filesystem::path& folder, const LoadOptions& load);
  std::vector<TextBatch> MakeBatches(std::span<const std::vector<int32_t>> texts) const;
  Tensor RunBatch(const Columns& columns, const std::stop_token& stop);
  Tensor InputOf(TextInput kind, const Columns& columns) const;

  TextEncoderOptions options_;
  TextEncoderConfig config_;
  std::vector<TextInput> inputs_;  ///< empty for a graph, which takes tokens, mask and types
  std::unique_ptr<Session> session_;
  int64_t longest_ = INT64_MAX;
  bool masked_ = true;  ///< texts of other lengths may run together
};

/// The tokenizer.json of a folder, without what it says about lengths: how many tokens the model
/// takes is known elsewhere.
Tokenizer ReadEncoderTokenizer(const std::filesystem::path& folder);
/// Tokens of a text at most: `wanted`, or, where that is 0, what sentence_bert_config.json or else
/// tokenizer_config.json says. `most` is what the model takes; 0: a graph does not say, and 512 are
/// as many as it gets unasked. Throws where `wanted` is more.
int64_t ReadMaxTokens(const std::filesystem::path& folder, int64_t wanted, int64_t most);
/// Throws kInvalidArgument for tokens that there are not, for no token, and for more than `most`.
void CheckEncoderTokens(std::span<const int32_t> ids, int64_t most, const Tokenizer& tokenizer);

}  // namespace oort
