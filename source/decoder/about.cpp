// SPDX-License-Identifier: MIT
#include "decoder/about.h"

#include <algorithm>
#include <iterator>

#include "core/problems.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "text/json.h"

namespace oort {
namespace {

using json::Json;
using Kind = TokenizerSource::Kind;

constexpr int64_t kAboutVersion = 1;
constexpr std::string_view kAboutName = "the description of the language model";
constexpr std::string_view kKinds[] = {"none", "json", "sentencepiece", "llama2c", "vocabulary"};

/// Every member of a DecoderConfig that the graph does not hold, with its name.
template <typename Config, typename Visit>
void VisitSizes(Config& config, const Visit& visit) {
  visit("vocabulary", config.vocabulary);
  visit("hidden", config.hidden);
  visit("layers", config.layers);
  visit("heads", config.heads);
  visit("kv_heads", config.kv_heads);
  visit("head_dim", config.head_dim);
  visit("intermediate", config.intermediate);
  visit("context", config.context);
}

template <typename Spec, typename Visit>
void VisitIds(Spec& spec, const Visit& visit) {
  visit("bos", spec.bos);
  visit("eos", spec.eos);
  visit("unk", spec.unk);
  visit("sep", spec.sep);
  visit("pad", spec.pad);
  visit("mask", spec.mask);
}

template <typename Spec, typename Visit>
void VisitFlags(Spec& spec, const Visit& visit) {
  visit("add_bos", spec.add_bos);
  visit("add_eos", spec.add_eos);
  visit("add_sep", spec.add_sep);
  visit("add_space_prefix", spec.add_space_prefix);
  visit("remove_extra_whitespaces", spec.remove_extra_whitespaces);
  visit("lowercase", spec.lowercase);
  visit("strip_accents", spec.strip_accents);
}

Json VocabularyJson(const VocabularySpec& spec) {
  Json value = {
      {"kind", spec.kind},     {"pre", spec.pre},       {"architecture", spec.architecture},
      {"tokens", spec.tokens}, {"scores", spec.scores}, {"types", spec.types},
      {"merges", spec.merges}};
  const auto put = [&](const char* name, const auto& member) {
    if (member) value[name] = *member;
  };
  VisitIds(spec, put);
  VisitFlags(spec, put);
  return value;
}

[[noreturn]] void FailAbout(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, std::string(kAboutName) + ": " + message);
}

std::string TextOf(const json::Object& object, std::string_view key) {
  return std::string(object.Text(key).value_or(""));
}

std::vector<std::string> TextsOf(const json::Object& object, std::string_view key) {
  std::vector<std::string> texts;
  const Json* list = object.Find(key);
  if (list == nullptr || !list->is_array()) object.ThrowWrongType(key, "a list of strings");
  texts.reserve(list->size());
  for (const Json& item : *list) {
    if (!item.is_string()) object.ThrowWrongType(key, "a list of strings");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<int32_t> IntegersOf(const json::Object& object, std::string_view key) {
  std::vector<int32_t> numbers;
  const Json* list = object.Find(key);
  if (list == nullptr || !list->is_array()) object.ThrowWrongType(key, "a list of integers");
  for (const Json& item : *list) {
    const int64_t number = item.is_number_integer() ? item.get<int64_t>() : INT64_MAX;
    if (number < INT32_MIN || number > INT32_MAX) {
      object.ThrowWrongType(key, "a list of integers of 32 bits");
    }
    numbers.push_back(static_cast<int32_t>(number));
  }
  return numbers;
}

VocabularySpec ParseVocabulary(const json::Object& object) {
  VocabularySpec spec;
  spec.kind = TextOf(object, "kind");
  spec.pre = TextOf(object, "pre");
  spec.architecture = TextOf(object, "architecture");
  spec.tokens = TextsOf(object, "tokens");
  spec.merges = TextsOf(object, "merges");
  spec.scores = object.Floats("scores");
  spec.types = IntegersOf(object, "types");
  VisitIds(spec, [&](const char* name, auto& member) {
    const auto id = object.Integer(name);
    if (!id) return;
    if (*id < 0 || *id >= static_cast<int64_t>(spec.tokens.size())) {
      object.ThrowWrongType(name, "a token of the vocabulary");
    }
    member = static_cast<int32_t>(*id);
  });
  VisitFlags(spec, [&](const char* name, auto& member) { member = object.Bool(name); });
  const auto fits = [&](size_t count) { return count == 0 || count == spec.tokens.size(); };
  if (!fits(spec.scores.size()) || !fits(spec.types.size())) {
    FailAbout("scores and types must be as many as tokens");
  }
  return spec;
}

void ParseTokenizer(const json::Object& object, TokenizerSource& tokenizer) {
  const std::string kind = TextOf(object, "kind");
  const auto at = std::find(std::begin(kKinds), std::end(kKinds), kind);
  if (at == std::end(kKinds)) FailAbout("there is no tokenizer of the kind " + Quote(kind));
  tokenizer.kind = static_cast<Kind>(at - std::begin(kKinds));
  tokenizer.config = TextOf(object, "config");
  const int64_t size = object.RequireInteger("vocabulary_size");
  if (size < 0 || size > INT32_MAX) FailAbout("the vocabulary has " + std::to_string(size));
  tokenizer.vocabulary_size = static_cast<size_t>(size);
  if (const auto vocabulary = object.Member("vocabulary")) {
    tokenizer.vocabulary = ParseVocabulary(*vocabulary);
  }
}

}  // namespace

std::string AboutText(const Checkpoint& checkpoint) {
  const TokenizerSource& source = checkpoint.tokenizer();
  Json config = {{"family", checkpoint.config().family}};
  VisitSizes(checkpoint.config(), [&](const char* name, int64_t value) { config[name] = value; });
  Json tokenizer = {{"kind", kKinds[static_cast<size_t>(source.kind)]},
                    {"config", source.config},
                    {"vocabulary_size", source.vocabulary_size}};
  if (!source.vocabulary.tokens.empty()) {
    tokenizer["vocabulary"] = VocabularyJson(source.vocabulary);
  }
  Json templates = Json::array();
  for (const NamedTemplate& item : checkpoint.chat_templates()) {
    templates.push_back({{"name", item.name}, {"text", item.text}});
  }
  const Json about = {{"version", kAboutVersion},
                      {"config", config},
                      {"tokenizer", tokenizer},
                      {"templates", templates},
                      {"end_tokens", checkpoint.end_tokens()}};
  return about.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CheckpointContents ParseAbout(std::string_view text) {
  const Json about = json::Parse(text, std::string(kAboutName));
  const json::Object object(about, std::string(kAboutName));
  if (object.RequireInteger("version") != kAboutVersion) {
    FailAbout("it is of another version of Oort");
  }
  const auto config = object.Member("config"), tokenizer = object.Member("tokenizer");
  if (!config || !tokenizer) FailAbout("'config' or 'tokenizer' is missing");
  CheckpointContents contents;
  contents.config = RequireFamily(TextOf(*config, "family"));
  VisitSizes(contents.config,
             [&](const char* name, int64_t& value) { value = config->RequireInteger(name); });
  contents.config.temperature = {};  // the graph has it, as it has the turning of queries and keys
  FinishConfig(contents.config);
  ParseTokenizer(*tokenizer, contents.tokenizer);
  const Json* templates = object.Find("templates");
  if (templates == nullptr || !templates->is_array()) object.ThrowWrongType("templates", "a list");
  for (const Json& item : *templates) {
    const json::Object entry(item, "a chat template");
    contents.templates.push_back({TextOf(entry, "name"), TextOf(entry, "text")});
  }
  for (const int32_t token : IntegersOf(object, "end_tokens")) AddEndToken(contents, token);
  return contents;
}

}  // namespace oort
