// SPDX-License-Identifier: MIT
#include "parser/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <limits>

#include "core/problems.h"

namespace oort::gguf {
namespace {

constexpr std::string_view kGgml = "tokenizer.ggml.";
constexpr std::string_view kTemplate = "tokenizer.chat_template";

class TokenizerKeys {
 public:
  explicit TokenizerKeys(const Metadata& metadata) : metadata_(metadata) {}

  VocabularySpec Spec() const {
    VocabularySpec spec;
    spec.kind = metadata_.Text(Key("model")).value_or("");
    spec.pre = metadata_.Text(Key("pre")).value_or("");
    spec.architecture = metadata_.Text("general.architecture").value_or("");
    spec.tokens = Strings("tokens");
    spec.merges = Strings("merges");
    spec.scores = metadata_.Floats(Key("scores"));
    spec.types = Types();
    spec.precompiled_charsmap = metadata_.Bytes(Key("precompiled_charsmap"));
    ReadFlags(spec);
    CheckSizes(spec);
    ReadIds(spec);
    return spec;
  }

 private:
  static std::string Key(std::string_view name) { return std::string(kGgml) + std::string(name); }

  std::vector<std::string> Strings(std::string_view name) const {
    const std::vector<std::string_view> views = metadata_.Texts(Key(name));
    std::vector<std::string> strings(views.begin(), views.end());
    const std::string what = "a string of " + Quote(Key(name));
    for (const std::string& text : strings) RequireUtf8(text, what);
    return strings;
  }

  std::vector<int32_t> Types() const {
    std::vector<int32_t> types;
    for (const int64_t type : metadata_.Integers(Key("token_type"))) {
      if (type < 0 || type > 6) {
        throw Error(ErrorCode::kInvalidModel,
                    "there is no type " + std::to_string(type) + " of tokens");
      }
      types.push_back(static_cast<int32_t>(type));
    }
    return types;
  }

  void ReadFlags(VocabularySpec& spec) const {
    spec.add_bos = metadata_.Bool(Key("add_bos_token"));
    spec.add_eos = metadata_.Bool(Key("add_eos_token"));
    spec.add_sep = metadata_.Bool(Key("add_sep_token"));
    spec.add_space_prefix = metadata_.Bool(Key("add_space_prefix"));
    spec.remove_extra_whitespaces = metadata_.Bool(Key("remove_extra_whitespaces"));
    spec.lowercase = metadata_.Bool(Key("normalizer.lowercase"));
    spec.strip_accents = metadata_.Bool(Key("normalizer.strip_accents"));
  }

  static void CheckSizes(const VocabularySpec& spec) {
    const auto fits = [&](size_t count) { return count == 0 || count == spec.tokens.size(); };
    if (fits(spec.scores.size()) && fits(spec.types.size())) return;
    throw Error(ErrorCode::kInvalidModel, "the vocabulary has " +
                                              std::to_string(spec.tokens.size()) + " tokens, but " +
                                              std::to_string(spec.scores.size()) + " scores and " +
                                              std::to_string(spec.types.size()) + " types");
  }

  void ReadIds(VocabularySpec& spec) const {
    spec.bos = Id("bos_token_id", spec);
    spec.eos = Id("eos_token_id", spec);
    spec.unk = Id("unknown_token_id", spec);
    spec.sep = Id("seperator_token_id", spec);  // as it is spelled there
    spec.pad = Id("padding_token_id", spec);
    spec.mask = Id("mask_token_id", spec);
  }

  /// Ids outside of the vocabulary stand for "none" in many files.
  std::optional<int32_t> Id(std::string_view name, const VocabularySpec& spec) const {
    const auto id = metadata_.Integer(Key(name));
    if (!id || *id < 0 || *id >= static_cast<int64_t>(spec.tokens.size())) return std::nullopt;
    return static_cast<int32_t>(*id);
  }

  const Metadata& metadata_;
};

void AddTemplate(CheckpointContents& contents, std::string_view name, std::string_view text) {
  RequireUtf8(text, "the chat template " + Quote(name));
  contents.templates.push_back({std::string(name), std::string(text)});
}

void ReadTemplates(const Metadata& metadata, CheckpointContents& contents) {
  const std::string named = std::string(kTemplate) + ".";
  if (const auto text = metadata.Text(kTemplate)) AddTemplate(contents, "default", *text);
  for (const std::string_view key : metadata.KeysFrom(named)) {
    AddTemplate(contents, key.substr(named.size()), *metadata.Text(key));
  }
}

}  // namespace

VocabularySpec ReadVocabulary(const Metadata& metadata) { return TokenizerKeys(metadata).Spec(); }

void ReadTokenizer(const Metadata& metadata, CheckpointContents& contents) {
  ReadTemplates(metadata, contents);
  for (const std::string_view name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const auto id = metadata.Integer(std::string(kGgml) + std::string(name));
    if (id) AddEndToken(contents, *id);
  }
  if (!metadata.Has(std::string(kGgml) + "model")) return;
  TokenizerSource& tokenizer = contents.tokenizer;
  tokenizer.vocabulary = ReadVocabulary(metadata);
  tokenizer.vocabulary_size = tokenizer.vocabulary.tokens.size();
  if (static_cast<int64_t>(tokenizer.vocabulary_size) > contents.config.vocabulary) {
    throw Error(ErrorCode::kInvalidModel,
                "the vocabulary has " + std::to_string(tokenizer.vocabulary_size) +
                    " tokens, but only " + std::to_string(contents.config.vocabulary) +
                    " have an embedding");
  }
  tokenizer.kind = TokenizerSource::Kind::kVocabulary;
  if (const auto json = metadata.Text("tokenizer.huggingface.json")) {
    tokenizer.kind = TokenizerSource::Kind::kJson;
    tokenizer.bytes = *json;
  }
}

}  // namespace oort::gguf
