// SPDX-License-Identifier: MIT
// Hugging Face's tokenizer.json.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/guard.h"
#include "oort/error.h"
#include "tokenizer/json_components.h"

namespace oort::llm {
namespace {

Error BadModel(const std::string& message) { return {ErrorCode::kInvalidModel, message}; }

Vocabulary ReadVocabulary(const Json& model, std::string_view of) {
  const Json& vocab = NeededMember(model, "vocab", of);
  if (!vocab.is_object()) {
    throw BadModel(std::string(of) + ": expected an object as 'vocab', got " + vocab.type_name());
  }
  Vocabulary out;
  for (const auto& [piece, id] : vocab.items()) {
    out.Add(piece, NumberOf(id, "the id of '" + piece + "'", kMaxTokenId));
  }
  return out;
}

/// ["a", "b"], or in older files "a b".
Merges ReadMerges(const Json& model) {
  Merges merges;
  const Json& list = ArrayMember(model, "merges", "BPE");
  merges.reserve(list.size());
  for (const Json& merge : list) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    if (merge.is_string()) {
      const std::string& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        merges.emplace_back(text.substr(0, space), text.substr(space + 1));
        continue;
      }
    }
    throw BadModel("BPE: expected merge " + std::to_string(merges.size()) + " as two pieces, got " +
                   merge.dump());
  }
  return merges;
}

ModelPtr ReadBpe(const Json& json, bool& words_are_bytes) {
  if (const Json* dropout = Member(json, "dropout")) {
    if (!dropout->is_number() || dropout->get<double>() != 0) {
      throw Error(ErrorCode::kUnsupported, "the BPE model has a dropout of " + dropout->dump() +
                                               ", which makes ids random and is not supported");
    }
  }
  BpeOptions options;
  options.unk = OptionalString(json, "unk_token", "BPE");
  options.continuing_prefix = OptionalString(json, "continuing_subword_prefix", "BPE").value_or("");
  options.word_suffix = OptionalString(json, "end_of_word_suffix", "BPE").value_or("");
  options.fuse_unk = BoolMember(json, "fuse_unk", "BPE", false);
  options.byte_fallback = BoolMember(json, "byte_fallback", "BPE", false);
  options.ignore_merges = BoolMember(json, "ignore_merges", "BPE", false);
  Vocabulary vocabulary = ReadVocabulary(json, "BPE");
  words_are_bytes = words_are_bytes && options.continuing_prefix.empty() &&
                    options.word_suffix.empty() && CanTakeBytes(vocabulary);
  options.words_are_bytes = words_are_bytes;
  return MakeBpe(std::move(vocabulary), ReadMerges(json), std::move(options));
}

/// 10^exponent, rounded once; std::pow need not be.
double PowerOfTen(int exponent) {
  const std::string text = "1e" + std::to_string(exponent);
  double power = 0;
  std::from_chars(text.data(), text.data() + text.size(), power);
  return power;
}

/// A number as the tokenizers library reads it: all digits as an integer, then scaled, which errs
/// in the last bit now and then. Ties between pieces depend on it.
double AsSerdeReads(double value) {
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof(text), std::fabs(value), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0;
  const char* at = text;
  for (bool fraction = false; at < end && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    if (fraction) --exponent;
  }
  const bool negative = at + 1 < end && at[1] == '-';
  int power = 0;
  if (at < end) std::from_chars(at + 2, end, power);
  exponent += negative ? -power : power;
  auto result = static_cast<double>(digits);
  constexpr int kLargest = 308;  // its table of powers ends there
  for (; exponent < -kLargest; exponent += kLargest) result /= 1e308;
  result = exponent < 0 ? result / PowerOfTen(-exponent) : result * PowerOfTen(exponent);
  return std::signbit(value) ? -result : result;
}

ModelPtr ReadUnigram(const Json& json) {
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const Json& entry : ArrayMember(json, "vocab", "Unigram")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      throw BadModel("Unigram: expected [piece, score] as entry " + std::to_string(scores.size()));
    }
    vocabulary.Add(entry[0].get<std::string>(), static_cast<int64_t>(scores.size()));
    scores.push_back(AsSerdeReads(entry[1].get<double>()));
    if (!std::isfinite(scores.back())) throw BadModel("Unigram: a score is not finite");
  }
  std::optional<int32_t> unk;
  if (const Json* id = Member(json, "unk_id")) {
    unk = static_cast<int32_t>(
        NumberOf(*id, "Unigram 'unk_id'", static_cast<int64_t>(scores.size()) - 1));
  }
  return MakeUnigram(std::move(vocabulary), std::move(scores), unk,
                     BoolMember(json, "byte_fallback", "Unigram", false));
}

/// Old files do not name the type of their model.
std::string ModelType(const Json& json) {
  if (Member(json, "type") != nullptr) return StringMember(json, "type", "the model");
  if (Member(json, "merges") != nullptr) return "BPE";
  const Json& vocab = NeededMember(json, "vocab", "the model");
  if (vocab.is_array()) return "Unigram";
  return Member(json, "max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel";
}

AddedToken ReadAddedToken(const Json& json) {
  constexpr std::string_view kOf = "an added token";
  NumberMember(json, "id", kOf, UINT32_MAX);  // it has to be there, though nothing depends on it
  AddedToken token;
  token.content = StringMember(json, "content", kOf);
  token.single_word = BoolMember(json, "single_word", kOf);
  token.lstrip = BoolMember(json, "lstrip", kOf);
  token.rstrip = BoolMember(json, "rstrip", kOf);
  token.normalized = BoolMember(json, "normalized", kOf);
  token.special = BoolMember(json, "special", kOf);
  return token;
}

bool IsLeft(const Json& json, std::string_view of) {
  const std::string direction = OptionalString(json, "direction", of).value_or("Right");
  if (direction != "Left" && direction != "Right") {
    throw BadModel(std::string(of) + ": expected the direction Left or Right, got '" + direction +
                   "'");
  }
  return direction == "Left";
}

Truncation ReadTruncation(const Json& json) {
  Truncation truncation;
  const std::string strategy = StringMember(json, "strategy", "truncation");
  if (strategy != "LongestFirst" && strategy != "OnlyFirst" && strategy != "OnlySecond") {
    throw BadModel(
        "truncation: expected the strategy LongestFirst, OnlyFirst or OnlySecond, got '" +
        strategy + "'");
  }
  truncation.only_second = strategy == "OnlySecond";
  truncation.max_length =
      static_cast<size_t>(NumberMember(json, "max_length", "truncation", INT32_MAX));
  truncation.left = IsLeft(json, "truncation");
  return truncation;
}

Padding ReadPadding(const Json& json) {
  Padding padding;
  const Json& strategy = NeededMember(json, "strategy", "padding");
  if (const Json* fixed = Member(strategy, "Fixed")) {
    constexpr int64_t kMost = int64_t{1} << 24;
    padding.length = static_cast<size_t>(NumberOf(*fixed, "padding 'Fixed'", kMost));
  } else if (strategy != "BatchLongest") {
    throw BadModel("padding: expected the strategy BatchLongest or Fixed, got " + strategy.dump());
  }
  if (Member(json, "pad_to_multiple_of") != nullptr) {
    padding.multiple_of =
        static_cast<size_t>(NumberMember(json, "pad_to_multiple_of", "padding", 1 << 20));
  }
  padding.id = static_cast<int32_t>(NumberMember(json, "pad_id", "padding", kMaxTokenId));
  padding.left = IsLeft(json, "padding");
  return padding;
}

/// "bos_token": "<s>" or {"content": "<s>", …}
std::optional<std::string> NamedToken(const Json& config, const char* name) {
  const Json* token = Member(config, name);
  if (token == nullptr) return std::nullopt;
  if (token->is_object()) return OptionalString(*token, "content", name);
  if (token->is_string()) return token->get<std::string>();
  return std::nullopt;
}

/// A part that is not known may change the ids.
void RefuseUnknownParts(const Json& json) {
  constexpr std::array<std::string_view, 9> kParts = {
      "version",       "truncation",     "padding", "added_tokens", "normalizer",
      "pre_tokenizer", "post_processor", "decoder", "model"};
  for (const auto& [name, part] : json.items()) {
    if (std::find(kParts.begin(), kParts.end(), name) != kParts.end()) continue;
    throw Error(ErrorCode::kUnsupported, "tokenizer.json has '" + name + "', which is not known");
  }
}

}  // namespace

ModelPtr ReadModel(const Json& json, bool& words_are_bytes) {
  const std::string type = ModelType(json);
  if (type == "BPE") return ReadBpe(json, words_are_bytes);
  words_are_bytes = false;
  if (type == "Unigram") return ReadUnigram(json);
  if (type == "WordPiece") {
    const int64_t most = NumberMember(json, "max_input_chars_per_word", type, INT32_MAX);
    return MakeWordPiece(ReadVocabulary(json, type), StringMember(json, "unk_token", type),
                         StringMember(json, "continuing_subword_prefix", type),
                         static_cast<size_t>(most));
  }
  if (type == "WordLevel") {
    return MakeWordLevel(ReadVocabulary(json, type), StringMember(json, "unk_token", type));
  }
  throw Error(ErrorCode::kUnsupported,
              "the tokenizer has the model '" + type + "', which is not known");
}

}  // namespace oort::llm

namespace oort {

Tokenizer Tokenizer::FromJson(std::string_view text, std::string_view config) {
  return Guarded([&] {
    using namespace llm;
    const Json json = ParseJson(text, "tokenizer.json");
    if (!json.is_object()) {
      throw Error(ErrorCode::kInvalidModel, "tokenizer.json: expected an object");
    }
    if (const auto version = OptionalString(json, "version", "tokenizer.json");
        version && *version != "1.0") {
      throw Error(ErrorCode::kUnsupported,
                  "tokenizer.json: expected version 1.0, got '" + *version + "'");
    }
    RefuseUnknownParts(json);
    Pipeline pipeline;
    if (const Json* part = Member(json, "normalizer")) pipeline.normalizer = ReadNormalizer(*part);
    const Json* pre_tokenizer = Member(json, "pre_tokenizer");
    bool words_are_bytes = pre_tokenizer != nullptr && EndsWithByteLevel(*pre_tokenizer);
    pipeline.model = ReadModel(NeededMember(json, "model", "tokenizer.json"), words_are_bytes);
    if (pre_tokenizer != nullptr) {
      pipeline.pre_tokenizer = ReadPreTokenizer(*pre_tokenizer, !words_are_bytes);
    }
    if (const Json* part = Member(json, "post_processor")) {
      pipeline.post_processor = ReadPostProcessor(*part);
    }
    if (const Json* part = Member(json, "decoder")) pipeline.decoder = ReadDecoder(*part);
    if (const Json* part = Member(json, "truncation")) pipeline.truncation = ReadTruncation(*part);
    if (const Json* part = Member(json, "padding")) pipeline.padding = ReadPadding(*part);
    std::vector<AddedToken> tokens;
    if (Member(json, "added_tokens") != nullptr) {
      for (const Json& token : ArrayMember(json, "added_tokens", "tokenizer.json")) {
        tokens.push_back(ReadAddedToken(token));
      }
    }
    pipeline.added = AddedTokens(tokens, pipeline.model->vocabulary(), pipeline.normalizer.get());
    if (!config.empty()) {
      const Json settings = ParseJson(config, "tokenizer_config.json");
      if (const auto bos = NamedToken(settings, "bos_token"))
        pipeline.bos = FindToken(pipeline, *bos);
      if (const auto eos = NamedToken(settings, "eos_token"))
        pipeline.eos = FindToken(pipeline, *eos);
    }
    return MakeTokenizer(std::move(pipeline));
  });
}

}  // namespace oort
