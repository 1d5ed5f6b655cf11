// SPDX-License-Identifier: MIT
// How well texts answer a query, by a cross-encoder such as bge-reranker-base, which reads both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "oort/device.h"
#include "oort/isa.h"
#include "oort/pnnx.h"
#include "oort/precision.h"
#include "oort/tokenizer.h"

namespace oort {

struct RerankerOptions {
  bool raw_scores = false;      ///< what the head says, even where the model asks for its sigmoid
  int64_t max_tokens = 0;       ///< of query and text together; 0: as the model says
  int64_t batch_tokens = 4096;  ///< that run at a time, padding included
  int threads = 0;              ///< 0 for as many as the process may use
  Precision precision = Precision::kF32;
  Isa isa = DefaultIsa();
  Device device;
  std::stop_token stop;       ///< of the load, which throws kCancelled then
  ProgressFunction progress;  ///< of the load
};

struct RerankScores {
  std::vector<float> values;  ///< one for each text, in their order
  int64_t tokens = 0;         ///< of all pairs, those that were cut off left out
  int64_t truncated = 0;      ///< pairs that had more than max_tokens
};

/// Pairs of similar length run together, so that little is padded; each gets the score that it
/// would have alone, but for the last digits. Stays usable after an Error.
/// Thread contract: one thread at a time.
class Reranker {
 public:
  /// A folder of Hugging Face with config.json, safetensors and tokenizer.json, whose head has one
  /// label (…ForSequenceClassification of BERT, XLM-RoBERTa, ModernBERT and others).
  explicit Reranker(const std::filesystem::path& folder, const RerankerOptions& options = {});
  ~Reranker();
  Reranker(Reranker&&) noexcept;
  Reranker& operator=(Reranker&&) noexcept;

  /// Of each text, how well it answers the query. Throws kCancelled where `stop` is triggered
  /// before the end.
  RerankScores Score(std::string_view query, std::span<const std::string> texts,
                     const std::stop_token& stop = {});
  /// The same of pairs of tokens, as Encode makes them.
  RerankScores ScoreTokens(std::span<const TokenPair> pairs, const std::stop_token& stop = {});

  /// Tokens of a query and a text, max_tokens at most: the longer one is cut first. `truncated`
  /// tells whether there were more.
  TokenPair Encode(std::string_view query, std::string_view text, bool* truncated = nullptr) const;
  int64_t max_tokens() const;
  const Tokenizer& tokenizer() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Places of the best scores, the best first; equal ones in their order. 0 for all of them.
std::vector<size_t> BestScores(std::span<const float> scores, size_t count = 0);

/// Whether a folder holds a reranker: an encoder whose config.json says that it has such a head.
bool IsReranker(const std::filesystem::path& folder);

}  // namespace oort
