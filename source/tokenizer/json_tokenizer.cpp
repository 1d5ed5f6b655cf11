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

namespace oort::tokenizer {
namespace {

Error BadModel(const std::string& message) { return {ErrorCode::kInvalidModel, message}; }

Vocabulary ReadVocabulary(const Object& model) {
  const Json& vocab = model.Require("vocab");
  if (!vocab.is_object()) model.ThrowWrongType("vocab", "an object");
  Vocabulary out;
  for (const auto& [piece, id] : vocab.items()) {
    out.Add(piece, json::IntegerOf(id, "the id of '" + piece + "'", kMaxTokenId));
  }
  return out;
}

/// ["a", "b"], or in older files "a b".
Merges ReadMerges(const Object& model) {
  Merges merges;
  const Json& list = model.RequireList("merges");
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

/// A text that is empty where it is missing.
std::string TextOrEmpty(const Object& object, std::string_view key) {
  return std::string(object.Text(key).value_or(""));
}

ModelPtr ReadBpe(const Json& json, bool& words_are_bytes) {
  const Object model(json, "BPE");
  if (const Json* dropout = model.Find("dropout")) {
    if (!dropout->is_number() || dropout->get<double>() != 0) {
      throw Error(ErrorCode::kUnsupported, "the BPE model has a dropout of " + dropout->dump() +
                                               ", which makes ids random and is not supported");
    }
  }
  BpeOptions options;
  options.unk = model.Text("unk_token");
  options.continuing_prefix = TextOrEmpty(model, "continuing_subword_prefix");
  options.word_suffix = TextOrEmpty(model, "end_of_word_suffix");
  options.fuse_unk = model.Bool("fuse_unk").value_or(false);
  options.byte_fallback = model.Bool("byte_fallback").value_or(false);
  options.ignore_merges = model.Bool("ignore_merges").value_or(false);
  Vocabulary vocabulary = ReadVocabulary(model);
  words_are_bytes = words_are_bytes && options.continuing_prefix.empty() &&
                    options.word_suffix.empty() && CanTakeBytes(vocabulary);
  options.words_are_bytes = words_are_bytes;
  return MakeBpe(std::move(vocabulary), ReadMerges(model), std::move(options));
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
  const Object model(json, "Unigram");
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const Json& entry : model.RequireList("vocab")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      throw BadModel("Unigram: expected [piece, score] as entry " + std::to_string(scores.size()));
    }
    vocabulary.Add(entry[0].get<std::string>(), static_cast<int64_t>(scores.size()));
    scores.push_back(AsSerdeReads(entry[1].get<double>()));
    if (!std::isfinite(scores.back())) throw BadModel("Unigram: a score is not finite");
  }
  std::optional<int32_t> unk;
  if (model.Find("unk_id") != nullptr) {
    const int64_t most = static_cast<int64_t>(scores.size()) - 1;
    unk = static_cast<int32_t>(model.RequireInteger("unk_id", most));
  }
  return MakeUnigram(std::move(vocabulary), std::move(scores), unk,
                     model.Bool("byte_fallback").value_or(false));
}

/// Old files do not name the type of their model.
std::string ModelType(const Object& model) {
  if (const auto type = model.Text("type")) return std::string(*type);
  if (model.Find("merges") != nullptr) return "BPE";
  if (model.Require("vocab").is_array()) return "Unigram";
  return model.Find("max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel";
}

AddedToken ReadAddedToken(const Json& json) {
  const Object object(json, "an added token");
  object.RequireInteger("id", UINT32_MAX);  // it has to be there, though nothing depends on it
  AddedToken token;
  token.content = object.RequireText("content");
  token.single_word = object.RequireBool("single_word");
  token.lstrip = object.RequireBool("lstrip");
  token.rstrip = object.RequireBool("rstrip");
  token.normalized = object.RequireBool("normalized");
  token.special = object.RequireBool("special");
  return token;
}

bool IsLeft(const Object& part) {
  const std::string direction(part.Text("direction").value_or("Right"));
  if (direction != "Left" && direction != "Right") {
    throw BadModel(part.what() + ": expected the direction Left or Right, got '" + direction + "'");
  }
  return direction == "Left";
}

Truncation ReadTruncation(const Object& part) {
  Truncation truncation;
  const std::string strategy = part.RequireText("strategy");
  if (strategy != "LongestFirst" && strategy != "OnlyFirst" && strategy != "OnlySecond") {
    throw BadModel(
        "truncation: expected the strategy LongestFirst, OnlyFirst or OnlySecond, got '" +
        strategy + "'");
  }
  truncation.only_second = strategy == "OnlySecond";
  truncation.max_length = static_cast<size_t>(part.RequireInteger("max_length", INT32_MAX));
  truncation.left = IsLeft(part);
  return truncation;
}

Padding ReadPadding(const Object& part) {
  Padding padding;
  const Json& strategy = part.Require("strategy");
  if (strategy.is_object()) {
    constexpr int64_t kMost = int64_t{1} << 24;
    const Object fixed(strategy, part.what());
    padding.length = static_cast<size_t>(fixed.RequireInteger("Fixed", kMost));
  } else if (strategy != "BatchLongest") {
    throw BadModel("padding: expected the strategy BatchLongest or Fixed, got " + strategy.dump());
  }
  if (part.Find("pad_to_multiple_of") != nullptr) {
    padding.multiple_of = static_cast<size_t>(part.RequireInteger("pad_to_multiple_of", 1 << 20));
  }
  padding.id = static_cast<int32_t>(part.RequireInteger("pad_id", kMaxTokenId));
  padding.left = IsLeft(part);
  return padding;
}

/// "bos_token": "<s>" or {"content": "<s>", …}
std::optional<std::string> NamedToken(const Object& config, std::string_view name) {
  const Json* token = config.Find(name);
  if (token == nullptr) return std::nullopt;
  if (token->is_object())
    return std::optional<std::string>(Object(*token, std::string(name)).Text("content"));
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
  const std::string type = ModelType(Object(json, "the model"));
  if (type == "BPE") return ReadBpe(json, words_are_bytes);
  words_are_bytes = false;
  if (type == "Unigram") return ReadUnigram(json);
  const Object model(json, type);
  if (type == "WordPiece") {
    const int64_t most = model.RequireInteger("max_input_chars_per_word", INT32_MAX);
    return MakeWordPiece(ReadVocabulary(model), model.RequireText("unk_token"),
                         model.RequireText("continuing_subword_prefix"), most);
  }
  if (type == "WordLevel") {
    return MakeWordLevel(ReadVocabulary(model), model.RequireText("unk_token"));
  }
  throw Error(ErrorCode::kUnsupported,
              "the tokenizer has the model '" + type + "', which is not known");
}

}  // namespace oort::tokenizer

namespace oort {

Tokenizer Tokenizer::FromJson(std::string_view text, std::string_view config) {
  return Guarded([&] {
    using namespace tokenizer;
    const Json json = json::Parse(text, "tokenizer.json");
    const Object parts(json, "tokenizer.json");
    if (const auto version = parts.Text("version"); version && *version != "1.0") {
      throw Error(ErrorCode::kUnsupported,
                  "tokenizer.json: expected version 1.0, got '" + std::string(*version) + "'");
    }
    RefuseUnknownParts(json);
    Pipeline pipeline;
    if (const Json* part = parts.Find("normalizer")) pipeline.normalizer = ReadNormalizer(*part);
    const Json* pre_tokenizer = parts.Find("pre_tokenizer");
    bool words_are_bytes = pre_tokenizer != nullptr && EndsWithByteLevel(*pre_tokenizer);
    pipeline.model = ReadModel(parts.Require("model"), words_are_bytes);
    if (pre_tokenizer != nullptr) {
      pipeline.pre_tokenizer = ReadPreTokenizer(*pre_tokenizer, !words_are_bytes);
    }
    if (const Json* part = parts.Find("post_processor")) {
      pipeline.post_processor = ReadPostProcessor(*part);
    }
    if (const Json* part = parts.Find("decoder")) pipeline.decoder = ReadDecoder(*part);
    if (const Json* part = parts.Find("truncation")) {
      pipeline.truncation = ReadTruncation(Object(*part, "truncation"));
    }
    if (const Json* part = parts.Find("padding")) {
      pipeline.padding = ReadPadding(Object(*part, "padding"));
    }
    std::vector<AddedToken> tokens;
    if (parts.Find("added_tokens") != nullptr) {
      for (const Json& token : parts.RequireList("added_tokens")) {
        tokens.push_back(ReadAddedToken(token));
      }
    }
    pipeline.added = AddedTokens(tokens, pipeline.model->vocabulary(), pipeline.normalizer.get());
    if (!config.empty()) {
      const Json file = json::Parse(config, "tokenizer_config.json");
      const Object settings(file, "tokenizer_config.json");
      if (const auto bos = NamedToken(settings, "bos_token"))
        pipeline.bos = FindToken(pipeline, *bos);
      if (const auto eos = NamedToken(settings, "eos_token"))
        pipeline.eos = FindToken(pipeline, *eos);
    }
    return MakeTokenizer(std::move(pipeline));
  });
}

}  // namespace oort
