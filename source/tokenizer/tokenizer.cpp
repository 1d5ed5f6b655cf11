// SPDX-License-Identifier: MIT
#include "oort/tokenizer.h"

#include <algorithm>

#include "core/guard.h"
#include "oort/error.h"
#include "text/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/pipeline.h"

namespace oort {

using tokenizer::EncodeScratch;
using tokenizer::Word;
using tokenizer::Words;

Tokenizer::Impl::Impl(tokenizer::Pipeline from) : pipeline(std::move(from)) {
  const int64_t own = pipeline.model->vocabulary().size();
  size = static_cast<size_t>(std::max(own, pipeline.added.end_id()));
}

namespace {

constexpr size_t kLongestText = size_t{1} << 28;  // positions are 32 bits, and texts grow

void EncodeWord(const tokenizer::Model& model, std::string_view word, EncodeScratch& scratch,
                std::vector<int32_t>& ids) {
  const bool cached = model.worth_caching() && word.size() <= tokenizer::WordCache::kLongestWord;
  size_t count = 0;
  if (cached) {
    if (const int32_t* known = scratch.cache.Find(word, count)) {
      ids.insert(ids.end(), known, known + count);
      return;
    }
  }
  const size_t first = ids.size();
  model.Encode(word, ids, scratch.model);
  if (cached) scratch.cache.Add(word, std::span(ids).subspan(first));
}

void EncodeWords(const tokenizer::Pipeline& pipeline, EncodeScratch& scratch,
                 std::vector<int32_t>& ids) {
  const tokenizer::Model& model = *pipeline.model;
  for (const Word& word : scratch.words.list) {
    if (word.id >= 0) {
      ids.push_back(word.id);
      continue;
    }
    std::string_view rest = word.text;
    while (model.cuts_at_spaces() && !rest.empty()) {
      const size_t end = tokenizer::EndOfSpacedWord(rest);
      EncodeWord(model, rest.substr(0, end), scratch, ids);
      rest.remove_prefix(end);
    }
    if (!rest.empty()) EncodeWord(model, rest, scratch, ids);
  }
}

/// Added tokens of the raw text, then the normalized rest and the added tokens in that.
void SplitIntoWords(const tokenizer::Pipeline& pipeline, std::string_view text,
                    const tokenizer::SpecialRule& rule, Words& words) {
  words.arena.Clear();
  words.list.clear();
  words.next.clear();
  if (text.empty()) return;
  const Word all{text, -1, text::LengthFromLead(static_cast<unsigned char>(text[0]))};
  if (pipeline.added.HasRaw()) {
    pipeline.added.CutRaw(words, all, rule);
    words.list.swap(words.next);
  } else {
    words.list.push_back(all);
  }
  if (pipeline.normalizer == nullptr && !pipeline.added.HasNormalized()) return;
  words.next.clear();
  for (Word word : words.list) {
    if (word.id >= 0) {
      words.next.push_back(word);
      continue;
    }
    tokenizer::SpecialRule normal_rule = rule;
    if (pipeline.normalizer != nullptr) {
      // Where a byte of the normalized text comes from is not known.
      normal_rule = {rule.Allows(word.text), {}, {}};
      tokenizer::NormalText normal{std::string(word.text), word.from_start};
      pipeline.normalizer->Apply(normal, words.regex);
      word = {words.arena.Keep(normal.text), -1, normal.from_start};
    }
    if (word.text.empty()) continue;
    pipeline.added.CutNormalized(words, word, normal_rule);
  }
  words.list.swap(words.next);
}

void Truncate(std::vector<int32_t>& ids, const tokenizer::Truncation& truncation, size_t added) {
  // The special tokens alone are too many: the library then has no limit at all.
  if (truncation.max_length < added) return;
  const size_t room = truncation.max_length - added;
  if (ids.size() <= room) return;
  if (truncation.only_second && room > 0) {
    throw Error(ErrorCode::kLimit, "the tokenizer cuts only second texts of pairs; this text has " +
                                       std::to_string(ids.size()) + " tokens, more than " +
                                       std::to_string(room));
  }
  if (truncation.left) {
    ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(room));
  } else {
    ids.resize(room);
  }
}

void Pad(std::vector<int32_t>& ids, const tokenizer::Padding& padding) {
  size_t length = padding.length.value_or(ids.size());
  if (padding.multiple_of > 0 && length % padding.multiple_of > 0) {
    length += padding.multiple_of - length % padding.multiple_of;
  }
  if (ids.size() >= length) return;
  ids.insert(padding.left ? ids.begin() : ids.end(), length - ids.size(), padding.id);
}

}  // namespace

void Tokenizer::Impl::EncodeInto(std::string_view text, const EncodeOptions& options,
                                 std::span<const TextRange> plain, EncodeScratch& scratch,
                                 std::vector<int32_t>& ids) const {
  SplitIntoWords(pipeline, text, {options.parse_special, text, plain}, scratch.words);
  if (pipeline.pre_tokenizer != nullptr) pipeline.pre_tokenizer->Apply(scratch.words);
  ids.reserve(scratch.words.list.size() * 5 / 4 + 2);
  EncodeWords(pipeline, scratch, ids);
  const tokenizer::PostProcessor* post = pipeline.post_processor.get();
  const size_t added = post != nullptr && options.add_special ? post->added() : 0;
  if (pipeline.truncation) Truncate(ids, *pipeline.truncation, added);
  if (post != nullptr) {
    tokenizer::Sequences sequences;
    sequences.push_back({std::move(ids)});
    post->Apply(sequences, options.add_special);
    ids.clear();
    for (const auto& [part, type] : sequences) ids.insert(ids.end(), part.begin(), part.end());
  }
  if (pipeline.padding) Pad(ids, *pipeline.padding);
}

std::optional<std::string_view> Tokenizer::Impl::TextOf(int32_t id) const {
  if (const std::string* text = pipeline.added.Text(id)) return *text;
  const tokenizer::Vocabulary& vocabulary = pipeline.model->vocabulary();
  if (!vocabulary.Has(id)) return std::nullopt;
  return vocabulary.Piece(id);
}

bool Tokenizer::Impl::IsSpecial(int32_t id) const {
  if (id >= 0 && static_cast<size_t>(id) < pipeline.special.size() &&
      pipeline.special[static_cast<size_t>(id)]) {
    return true;
  }
  const auto text = TextOf(id);
  return text && pipeline.added.IsSpecialText(*text);
}

void Tokenizer::Impl::DecodePiece(int32_t id, const DecodeOptions& options,
                                  tokenizer::PieceSink& sink) const {
  const auto text = TextOf(id);
  if (!text) return;
  if (options.skip_special && IsSpecial(id)) {
    sink.Skip();
  } else {
    sink.Piece(*text);
  }
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  return Encode(text, options, {});
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options,
                                       std::span<const TextRange> plain) const {
  return Guarded([&] {
    std::unique_ptr<EncodeScratch> scratch;
    {
      const std::lock_guard lock(impl_->mutex);
      if (!impl_->idle.empty()) {
        scratch = std::move(impl_->idle.back());
        impl_->idle.pop_back();
      }
    }
    if (scratch == nullptr) scratch = std::make_unique<EncodeScratch>();
    if (text.size() > kLongestText) {
      throw Error(ErrorCode::kLimit, "a text of " + std::to_string(text.size()) +
                                         " bytes is too long to encode at once");
    }
    std::string valid;
    if (!impl_->pipeline.takes_any_bytes && !text::IsValidUtf8(text)) {
      valid = text::MakeValidUtf8(text);
      text = valid;
      // The ranges no longer fit.
      if (!plain.empty()) options.parse_special = false;
    }
    std::vector<int32_t> ids;
    impl_->EncodeInto(text, options, plain, *scratch, ids);
    const std::lock_guard lock(impl_->mutex);
    impl_->idle.push_back(std::move(scratch));
    return ids;
  });
}

TokenPair Tokenizer::JoinPair(std::vector<int32_t> first, std::vector<int32_t> second) const {
  return Guarded([&] {
    tokenizer::Sequences sequences = {{std::move(first), 0}, {std::move(second), 1}};
    if (const tokenizer::PostProcessor* post = impl_->pipeline.post_processor.get()) {
      if (!post->takes_pairs()) {
        throw Error(ErrorCode::kUnsupported,
                    "the tokenizer does not say which tokens stand around two texts");
      }
      post->Apply(sequences, true);
    }
    TokenPair pair;
    for (const auto& [ids, type] : sequences) {
      pair.ids.insert(pair.ids.end(), ids.begin(), ids.end());
      pair.types.insert(pair.types.end(), ids.size(), type);
    }
    return pair;
  });
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, DecodeOptions options) const {
  return Guarded([&] {
    std::string out;
    const tokenizer::PieceSinkPtr sink =
        impl_->pipeline.decoder->Start(tokenizer::MakeTextSink(&out));
    for (const int32_t id : ids) {
      impl_->DecodePiece(id, options, *sink);
    }
    sink->Finish();
    return out;
  });
}

size_t Tokenizer::size() const { return impl_->size; }

std::optional<int32_t> Tokenizer::IdOf(std::string_view piece) const {
  return tokenizer::FindToken(impl_->pipeline, piece);
}

std::string_view Tokenizer::Piece(int32_t id) const {
  return impl_->TextOf(id).value_or(std::string_view());
}

namespace {

/// The bytes that a decoder makes, as they are.
class ByteSink : public tokenizer::PieceSink {
 public:
  explicit ByteSink(std::string* out) : out_(out) {}
  void Part(std::string_view text) override { *out_ += text; }
  void End() override {}
  void Finish() override {}

 private:
  std::string* out_;
};

}  // namespace

std::string Tokenizer::BytesOf(int32_t id) const {
  return Guarded([&]() -> std::string {
    const auto piece = impl_->TextOf(id);
    if (!piece) return {};
    // Byte by byte, a decoder would wait for the rest of the character.
    const bool added = impl_->pipeline.added.Text(id) != nullptr;
    const int byte = added ? -1 : tokenizer::ByteOfPiece(*piece);
    if (byte >= 0) return std::string(1, static_cast<char>(byte));
    // Decoders treat the first piece of a text in ways of their own, so another one stands before.
    const auto decode = [&](std::initializer_list<std::string_view> pieces) {
      std::string out;
      const tokenizer::PieceSinkPtr sink =
          impl_->pipeline.decoder->Start(std::make_unique<ByteSink>(&out));
      for (const std::string_view text : pieces) sink->Piece(text);
      sink->Finish();
      return out;
    };
    // The alphabet of bytes has this letter for a space. Its decoder would hold back parts of
    // characters, so that it is used for nothing else.
    const bool byte_level = !added && decode({"a", "Ġ"}) == "a ";
    if (byte_level) return tokenizer::FromByteLevel(*piece).value_or(std::string(*piece));
    return decode({"a", *piece}).substr(decode({"a"}).size());
  });
}

bool Tokenizer::IsSpecial(int32_t id) const { return impl_->IsSpecial(id); }
std::optional<int32_t> Tokenizer::bos() const { return impl_->pipeline.bos; }
std::optional<int32_t> Tokenizer::eos() const { return impl_->pipeline.eos; }

struct TokenStream::State {
  std::shared_ptr<const Tokenizer::Impl> tokenizer;
  DecodeOptions options;
  std::string out;
  tokenizer::PieceSinkPtr sink;

  void Begin() { sink = tokenizer->pipeline.decoder->Start(tokenizer::MakeTextSink(&out)); }
  std::string Take() { return std::exchange(out, std::string()); }
};

TokenStream::TokenStream(Tokenizer tokenizer, DecodeOptions options)
    : state_(std::make_unique<State>()) {
  state_->tokenizer = tokenizer.impl_;
  state_->options = options;
  state_->Begin();
}
TokenStream::~TokenStream() = default;
TokenStream::TokenStream(TokenStream&&) noexcept = default;
TokenStream& TokenStream::operator=(TokenStream&&) noexcept = default;

std::string TokenStream::Push(int32_t id) {
  return Guarded([&] {
    state_->tokenizer->DecodePiece(id, state_->options, *state_->sink);
    return state_->Take();
  });
}

std::string TokenStream::Flush() {
  return Guarded([&] {
    state_->sink->Finish();
    state_->Begin();
    return state_->Take();
  });
}

std::optional<int32_t> tokenizer::FindToken(const Pipeline& pipeline, std::string_view piece) {
  int32_t id = pipeline.added.Find(piece);
  if (id < 0) id = pipeline.model->vocabulary().Find(piece);
  return id < 0 ? std::nullopt : std::optional(id);
}

Tokenizer tokenizer::MakeTokenizer(Pipeline pipeline) {
  if (pipeline.decoder == nullptr) pipeline.decoder = MakeJoinDecoder();
  return Tokenizer(std::make_shared<const Tokenizer::Impl>(std::move(pipeline)));
}

}  // namespace oort
