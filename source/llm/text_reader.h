// SPDX-License-Identifier: MIT
// The encoder of an encoder-decoder (T5, BART): a text is read once, and the decoder sees it with
// every token that it writes.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "oort/kv_cache.h"
#include "oort/language_model.h"
#include "oort/session.h"
#include "parser/huggingface/encoder_decoder.h"

namespace oort {

/// Thread contract: any number of threads; texts are read one at a time.
class TextReader {
 public:
  /// `encoder` is that of BuildEncoderDecoder, perhaps with fewer heads of keys and values.
  /// `threads`: 0 for all processors.
  TextReader(const EncoderDecoderFiles& files, Graph encoder, const LoadOptions& load, int threads);

  const EncoderDecoderConfig& config() const { return config_; }
  /// With the activations of the longest text.
  ReaderMemory memory() const;
  /// Throws kInvalidArgument for tokens that the vocabulary does not have, and for fewer than one
  /// or more than the longest text.
  void Check(std::span<const int32_t> tokens) const;
  std::shared_ptr<EncodedText> Read(std::span<const int32_t> tokens) const;

 private:
  int64_t LongestText() const;
  std::vector<Tensor> InputsFor(std::span<const int32_t> tokens) const;
  Tensor Bias(int64_t tokens) const;

  EncoderDecoderConfig config_;
  std::vector<float> biases_;  ///< (buckets, heads)
  mutable std::mutex mutex_;   ///< of the session
  std::unique_ptr<Session> session_;
};

/// What is thrown where a model is asked for what only decoders without an encoder can do.
Error NotOfEncoderDecoders(std::string_view what);

}  // namespace oort
