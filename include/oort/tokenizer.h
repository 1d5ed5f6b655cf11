// SPDX-License-Identifier: MIT
// Text to token ids and back, as the model's own tokenizer does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oort/text_range.h"

namespace oort {

/// What a GGUF file says about its vocabulary (`tokenizer.ggml.*`). Absent keys keep their value
/// here; absent optionals get the default of the kind.
struct VocabularySpec {
  std::string kind;                 ///< .model: "gpt2", "llama", "bert", "t5", "gemma4"
  std::string pre;                  ///< .pre: how "gpt2" splits words; unknown ones are refused
  std::string architecture;         ///< general.architecture; the family says more of tokens
  std::vector<std::string> tokens;  ///< .tokens, as stored
  std::vector<float> scores;        ///< .scores, empty or one for each token
  /// .token_type, empty or one for each token: 1 normal, 2 unknown, 3 control, 4 user defined,
  /// 5 unused, 6 byte.
  std::vector<int32_t> types;
  std::vector<std::string> merges;  ///< .merges, "left right"
  std::optional<int32_t> bos, eos, unk, sep, pad, mask;
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents;  ///< .normalizer.* of "bert"
  std::string precompiled_charsmap;              ///< .precompiled_charsmap, raw bytes
};

struct EncodeOptions {
  bool add_special = true;    ///< add what the model wants around a text, for example <s>
  bool parse_special = true;  ///< read "<|im_end|>" in the text as the special token
};

struct DecodeOptions {
  bool skip_special = true;  ///< leave special tokens out of the text
};

/// Two texts that are read together.
struct TokenPair {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  ///< of each token: mostly 0 for the first text, 1 for the second
};

/// Immutable and cheap to copy; one object may be used by many threads at once.
class Tokenizer {
 public:
  /// A Hugging Face tokenizer.json; `config` is the tokenizer_config.json beside it, which names
  /// bos and eos. A component that is not known is an error, as everything it does is needed.
  static Tokenizer FromJson(std::string_view json, std::string_view config = {});
  /// The vocabulary of a GGUF file.
  static Tokenizer FromVocabulary(const VocabularySpec& spec);
  /// A sentencepiece .model; `config` as above may ask for bos and eos, which the model itself
  /// never adds.
  static Tokenizer FromSentencePiece(std::string_view bytes, std::string_view config = {});
  /// llama2.c's tokenizer.bin, which does not know its size: `vocab_size` is the checkpoint's.
  static Tokenizer FromLlama2c(std::string_view bytes, size_t vocab_size);
  /// One of these by its content: a GGUF file, tokenizer.json, .model, tokenizer.bin (all of it),
  /// or a folder that holds one of the last three, in this order.
  static Tokenizer FromFile(const std::filesystem::path& path);

  /// Ids of a text. Bytes that are not UTF-8 are read as U+FFFD.
  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options = {}) const;
  /// The same for a text that is trusted only in part: what overlaps one of the ranges of `plain`,
  /// which stand in order, is never read as a special token. (Special tokens that are looked for
  /// in normalized text are found only where no such range is near.)
  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options,
                              std::span<const TextRange> plain) const;
  /// Tokens of two texts, encoded without those around a text, with what the model wants around
  /// and between them. Throws kUnsupported where the tokenizer does not say what that is.
  TokenPair JoinPair(std::vector<int32_t> first, std::vector<int32_t> second) const;
  /// Text of ids, always valid UTF-8. Ids that the vocabulary does not have are left out.
  std::string Decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  size_t size() const;  ///< one more than the highest id
  std::optional<int32_t> IdOf(std::string_view piece) const;
  /// The piece as the vocabulary spells it ("Ġthe", "▁the"); empty where no token has the id.
  std::string_view Piece(int32_t id) const;
  /// What a token adds to a text behind other tokens, special ones included: whole characters, or
  /// bytes that are parts of one.
  std::string BytesOf(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  /// What each token adds to a text that has begun, by id: bytes, as a token may be a part of a
  /// character. Empty for special tokens and for ids without one. Throws kUnsupported where what a
  /// token adds depends on those around it.
  std::vector<std::string> TokenBytes() const;
  /// Whether a text does not have the space that its first token begins with.
  bool drops_first_space() const;
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;

  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend class TokenStream;
  std::shared_ptr<const Impl> impl_;
};

/// Decodes ids one by one. All text that it returns, joined, equals Decode of all ids; each part is
/// valid UTF-8 and never changes later, so a character that spans tokens comes with its last one.
class TokenStream {
 public:
  explicit TokenStream(Tokenizer tokenizer, DecodeOptions options = {});
  ~TokenStream();
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;

  std::string Push(int32_t id);
  /// What was held back; the stream then begins anew.
  std::string Flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace oort
