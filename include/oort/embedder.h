// SPDX-License-Identifier: MIT
// Texts to vectors, by an encoder such as all-MiniLM-L6-v2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "oort/device.h"
#include "oort/isa.h"
#include "oort/pnnx.h"
#include "oort/precision.h"
#include "oort/tokenizer.h"

namespace oort {

/// How the hidden states of a text become one vector.
enum class Pooling : unsigned char {
  kAuto,  ///< as 1_Pooling/config.json says; without that file, the mean
  kMean,  ///< over all tokens
  kCls,   ///< that of the first token
};

struct EmbedderOptions {
  Pooling pooling = Pooling::kAuto;
  bool normalize = true;        ///< vectors of length 1
  int64_t max_tokens = 0;       ///< of a text; 0: as sentence_bert_config.json says, else 512
  int64_t batch_tokens = 4096;  ///< that run at a time, padding included
  int threads = 0;              ///< 0 for as many as the process may use
  Precision precision = Precision::kF32;
  Isa isa = DefaultIsa();
  Device device;
  std::stop_token stop;       ///< of the load, which throws kCancelled then
  ProgressFunction progress;  ///< of the load
};

struct Embeddings {
  int64_t dimensions = 0;
  std::vector<float> values;  ///< one vector behind the other
  int64_t tokens = 0;         ///< of all texts, those that were cut off left out
  int64_t truncated = 0;      ///< texts that had more than max_tokens

  std::span<const float> operator[](size_t i) const {
    const auto width = static_cast<size_t>(dimensions);
    return std::span(values).subspan(i * width, width);
  }
};

/// Texts of similar length run together, so that little is padded; each gets the vector that it
/// would have alone, but for the last digits. Stays usable after an Error.
/// Thread contract: one thread at a time.
class Embedder {
 public:
  /// A folder of Hugging Face with config.json, safetensors and tokenizer.json, of BERT's family
  /// and its relatives; or one with model.pnnx.param, its .bin and tokenizer.json, as
  /// tools/export-encoder.py writes it. Such a graph takes token ids and, unless it takes texts one
  /// by one, their mask; it gives hidden states (texts, tokens, width), or vectors (texts, width).
  explicit Embedder(const std::filesystem::path& folder, const EmbedderOptions& options = {});
  ~Embedder();
  Embedder(Embedder&&) noexcept;
  Embedder& operator=(Embedder&&) noexcept;

  /// Throws kCancelled where `stop` is triggered before the end.
  Embeddings Embed(std::span<const std::string> texts, const std::stop_token& stop = {});
  /// The same for tokens, those around a text included.
  Embeddings EmbedTokens(std::span<const std::vector<int32_t>> texts,
                         const std::stop_token& stop = {});

  /// Tokens of a text with those that the model wants around it, max_tokens at most; `truncated`
  /// tells whether there were more.
  std::vector<int32_t> Encode(std::string_view text, bool* truncated = nullptr) const;
  int64_t dimensions() const;
  int64_t max_tokens() const;
  const Tokenizer& tokenizer() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether a folder holds an encoder: a graph, and how its hidden states are pooled.
bool IsEncoder(const std::filesystem::path& folder);

}  // namespace oort
