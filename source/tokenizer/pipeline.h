// SPDX-License-Identifier: MIT
// All parts of a tokenizer, put together by the readers of its files.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/tokenizer.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/word_cache.h"

namespace oort::tokenizer {

struct Truncation {
  size_t max_length = 0;
  bool only_second = false;  ///< of a pair: a single text that is too long is an error
  bool left = false;
};
struct Padding {
  std::optional<size_t> length;  ///< nothing: as long as the longest, which is this one
  size_t multiple_of = 0;
  int32_t id = 0;
  bool left = false;
};

struct Pipeline {
  NormalizerPtr normalizer;
  PreTokenizerPtr pre_tokenizer;
  ModelPtr model;
  AddedTokens added;
  PostProcessorPtr post_processor;
  DecoderPtr decoder;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  std::optional<int32_t> bos, eos;
  bool takes_any_bytes = false;  ///< the normalizer puts U+FFFD into text that is not UTF-8
  std::vector<bool> special;     ///< by id, for tokens that are special without being added ones
};

Tokenizer MakeTokenizer(Pipeline pipeline);
/// The id of a piece, added tokens first.
std::optional<int32_t> FindToken(const Pipeline& pipeline, std::string_view piece);

/// Memory of one thread that encodes.
struct EncodeScratch {
  Words words;
  ModelScratch model;
  WordCache cache;
  std::vector<int32_t> ids;
};

}  // namespace oort::tokenizer

namespace oort {

struct Tokenizer::Impl {
  explicit Impl(tokenizer::Pipeline from);
  void EncodeInto(std::string_view text, const EncodeOptions& options,
                  std::span<const TextRange> plain, tokenizer::EncodeScratch& scratch,
                  std::vector<int32_t>& ids) const;
  /// Nothing where no token has the id.
  std::optional<std::string_view> TextOf(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  void DecodePiece(int32_t id, const DecodeOptions& options, tokenizer::PieceSink& sink) const;

  tokenizer::Pipeline pipeline;
  size_t size = 0;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<tokenizer::EncodeScratch>> idle;
};

}  // namespace oort
