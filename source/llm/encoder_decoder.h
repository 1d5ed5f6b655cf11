// SPDX-License-Identifier: MIT
// Answers of encoder-decoders (T5, BART): a text is read once, then the answer is written token by
// token.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oort/isa.h"
#include "oort/sampler.h"
#include "oort/session.h"
#include "oort/tokenizer.h"
#include "parser/huggingface/encoder_decoder.h"

namespace oort {

struct EncoderDecoderOptions {
  int threads = 0;  ///< 0: all that the process may use
  Isa isa = DefaultIsa();
};

struct TextAnswer {
  std::vector<int32_t> tokens;  ///< without the one that ends it
  bool ended = false;           ///< else it has as many tokens as it may have
};

/// Thread contract: one thread at a time.
class EncoderDecoder {
 public:
  /// Throws as Checkpoint::Open does.
  explicit EncoderDecoder(const std::filesystem::path& folder,
                          const EncoderDecoderOptions& options = {});

  const EncoderDecoderConfig& config() const { return config_; }
  /// Throws where the folder has no tokenizer.
  Tokenizer ReadTokenizer() const { return Tokenizer::FromFile(folder_); }

  /// Reads a text, and forgets the one before. Throws kInvalidArgument for tokens that the
  /// vocabulary does not have, and for more than config().most_tokens().
  void Read(std::span<const int32_t> tokens);
  /// Logits of the token that follows `token`, which follows those of earlier calls.
  std::span<const float> Step(int32_t token);
  /// Reads a text and writes up to `most` tokens, as `sampler` picks them; `ignore_end`: goes on
  /// behind the end. `on_token` returns whether to go on.
  TextAnswer Answer(std::span<const int32_t> tokens, Sampler& sampler, int64_t most,
                    bool ignore_end = false, const std::function<bool(int32_t)>& on_token = {});

 private:
  bool IsEnd(int32_t token) const;
  void CheckTokens(std::span<const int32_t> tokens) const;
  void MakeRoom();
  /// What is added to the scores of all tokens of a text, and to those of the next token over the
  /// cache and itself.
  Tensor EncoderBias(int64_t tokens) const;
  Tensor DecoderMask() const;
  int64_t BucketOf(int64_t distance, bool both_ways) const;

  std::filesystem::path folder_;
  EncoderDecoderConfig config_;
  std::vector<float> encoder_bias_, decoder_bias_;  ///< (buckets, heads)
  std::unique_ptr<Session> encoder_, decoder_;
  std::vector<Tensor> heard_, cache_;
  Tensor logits_;
  int64_t cached_ = 0;
};

}  // namespace oort
