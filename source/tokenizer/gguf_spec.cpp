// SPDX-License-Identifier: MIT
#include "tokenizer/gguf_spec.h"

#include <algorithm>
#include <unordered_map>

#include "core/problems.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/json_components.h"
#include "tokenizer/pre_rules.h"
#include "tokenizer/spm.h"
#include "tokenizer/tokenizer_of.h"

namespace oort::tokenizer {
namespace {

constexpr const char* kElsewhere = "; write a .pnnx.param instead of a .gguf";

/// What rules of pre-tokenizers treat differently: case behind apostrophes, runs of digits, white
/// space and marks, changes of case, scripts, marks that combine, line ends.
constexpr std::string_view kTrial =
    "It's  what WE'LL see, isn't IT? They'd say: don't!\n\n\tint x_1 = foo(\"bar\") + 12345678;\r\n"
    "  if (a<=b && c!=d) { return HTTPServer.getX2Value()[0]; } // ok...\n   \n \n1 12 123 1234 "
    "12345 3.14159 1,000,000 100% $5 #1 @home\n        eight spaces\there ~~~ ---- ==== ''' \"\"\" "
    "na\xC3\xAFve e\xCC\x81t\xC3\xA9 \xC3\x9C"
    "ber Stra\xC3\x9F"
    "e \xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2"
    "\xD0\xB5\xD1\x82, \xD0\xBC\xD0\xB8\xD1\x80! \xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96"
    "\xE7\x95\x8C\xE3\x80\x82 \xE3\x81\x93\xE3\x82\x93\xE3\x81\xAB\xE3\x81\xA1\xE3\x81\xAF 123"
    "\xEC\x95\x88\xEB\x85\x95 \xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7 \xD9\xA1\xD9\xA2\xD9\xA3 "
    "\xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA\xE0\xB8\x94\xE0\xB8\xB5 "
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87 \xF0\x9F\x98\x80"
    "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD! (\xE2\x80\xA6) \xC2\xBD \xE2\x85\xA7 x\xC2\xB2  \n end";

/// Names that llama.cpp knows, one for each way to cut, those of many models first.
constexpr std::string_view kPreNames[] = {
    "llama-bpe", "qwen2",          "gpt-2",        "smollm",      "gpt-4o",     "tekken",
    "stablelm2", "dbrx",           "glm4",         "deepseek-v3", "command-r",  "falcon",
    "olmo",      "deepseek-coder", "deepseek-llm", "bloom",       "seed-coder", "viking",
    "qwen35",    "bailingmoe",     "minicpm5",     "afmoe",       "exaone-moe", "kimi-k2"};

/// The trial as normalizer and pre-tokenizer cut it.
std::vector<std::string> TrialWords(const Normalizer* normalizer, const PreTokenizer* cut) {
  Words words;
  NormalText text{std::string(kTrial), 1};
  if (normalizer != nullptr) normalizer->Apply(text, words.regex);
  words.list.push_back({words.arena.Keep(text.text), -1, text.from_start});
  if (cut != nullptr) cut->Apply(words);
  std::vector<std::string> found;
  for (const Word& word : words.list) found.emplace_back(word.text);
  return found;
}

class SpecMaker {
 public:
  SpecMaker(const TokenizerSource& source, std::string_view architecture, int64_t count)
      : source_(source), tokenizer_(TokenizerOf(source)), count_(static_cast<size_t>(count)) {
    spec_.architecture = architecture;
    if (tokenizer_.size() > count_) {
      throw Error(ErrorCode::kInvalidModel,
                  "the tokenizer has " + std::to_string(tokenizer_.size()) + " tokens, but only " +
                      std::to_string(count_) + " have an embedding");
    }
  }

  VocabularySpec Make() {
    switch (source_.kind) {
      case TokenizerSource::Kind::kJson: FromJson(); break;
      case TokenizerSource::Kind::kSentencePiece: FromSpm(); break;
      default: Refuse("one that is neither a tokenizer.json nor a sentencepiece model");
    }
    return spec_;
  }

 private:
  [[noreturn]] static void Refuse(const std::string& what) {
    throw Error(ErrorCode::kUnsupported, "a GGUF cannot hold this tokenizer, " + what + kElsewhere);
  }

  void FromJson() {
    const Json json = json::Parse(source_.bytes, "tokenizer.json");
    const Object parts(json, "tokenizer.json");
    const Object model = parts.RequireMember("model");
    const bool is_bpe = model.Text("type").value_or("BPE") == "BPE" &&
                        model.Find("merges") != nullptr && model.Find("vocab") != nullptr;
    if (!is_bpe) Refuse("whose model is not BPE");
    ReadPieces(parts);
    ReadSpecials();
    const std::vector<std::pair<std::string, std::string>> merges = MergesOf(model);
    const Json* pre_tokenizer = parts.Find("pre_tokenizer");
    if (pre_tokenizer != nullptr && EndsWithByteLevel(*pre_tokenizer)) {
      MakeByteLevelSpec(parts, model, *pre_tokenizer, merges);
    } else {
      MakeRankedSpec(merges);
    }
  }

  /// Tokens and types; ids without a token get names that no text has.
  void ReadPieces(const Object& parts) {
    for (size_t i = 0; i < count_; ++i) {
      const std::string_view piece = tokenizer_.Piece(static_cast<int32_t>(i));
      spec_.tokens.emplace_back(piece.empty() ? "[PAD" + std::to_string(i) + "]"
                                              : std::string(piece));
      const PieceType type = piece.empty() ? PieceType::kUnused : PieceType::kNormal;
      spec_.types.push_back(static_cast<int32_t>(type));
    }
    const Json* added = parts.Find("added_tokens");
    if (added == nullptr || !added->is_array()) return;
    for (const Json& token : *added) {
      const Object object(token, "an added token");
      const auto id = tokenizer_.IdOf(object.RequireText("content"));
      if (!id) continue;
      SetType(*id, object.RequireBool("special") ? PieceType::kControl : PieceType::kUserDefined);
    }
  }
  void SetType(int32_t id, PieceType type) {
    spec_.types[static_cast<size_t>(id)] = static_cast<int32_t>(type);
  }

  void ReadSpecials() {
    spec_.bos = tokenizer_.bos();
    spec_.eos = tokenizer_.eos();
    if (!source_.config.empty()) {
      const Json config = json::Parse(source_.config, "tokenizer_config.json");
      spec_.pad = TokenNamed(config, "pad_token");
      spec_.unk = TokenNamed(config, "unk_token");
    }
    // What the tokenizer puts around a text shows in an empty one.
    const std::vector<int32_t> around = tokenizer_.Encode("");
    spec_.add_bos = spec_.bos && !around.empty() && around.front() == *spec_.bos;
    spec_.add_eos = spec_.eos && !around.empty() && around.back() == *spec_.eos &&
                    around.size() > (*spec_.add_bos ? 1U : 0U);
  }
  std::optional<int32_t> TokenNamed(const Json& config, const char* key) const {
    const auto at = config.find(key);
    if (at == config.end()) return std::nullopt;
    if (at->is_string()) return tokenizer_.IdOf(at->get<std::string>());
    const auto content = at->is_object() ? Object(*at, key).Text("content") : std::nullopt;
    return content ? tokenizer_.IdOf(*content) : std::nullopt;
  }

  static std::vector<std::pair<std::string, std::string>> MergesOf(const Object& model) {
    std::vector<std::pair<std::string, std::string>> merges;
    for (const Json& merge : model.RequireList("merges")) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      } else if (merge.is_string()) {
        const auto text = merge.get<std::string>();
        const size_t space = text.find(' ');
        if (text.starts_with("#version") || space == text.npos) continue;
        merges.emplace_back(text.substr(0, space), text.substr(space + 1));
      }
    }
    return merges;
  }

  void MakeByteLevelSpec(const Object& parts, const Object& model, const Json& pre_tokenizer,
                         const std::vector<std::pair<std::string, std::string>>& merges) {
    spec_.kind = "gpt2";
    for (const auto& [left, right] : merges) spec_.merges.push_back(left + " " + right);
    NormalizerPtr normalizer;
    if (const Json* part = parts.Find("normalizer")) normalizer = ReadNormalizer(*part);
    const PreTokenizerPtr cut = ReadPreTokenizer(pre_tokenizer, true);
    const std::vector<std::string> wanted = TrialWords(normalizer.get(), cut.get());
    const bool ignores = model.Bool("ignore_merges").value_or(false);
    for (const std::string_view name : kPreNames) {
      const PreRule rule = PreRuleOf(name, true);
      if (rule.ignore_merges != ignores) continue;
      if (TrialWords(rule.normalizer.get(), rule.pre_tokenizer.get()) != wanted) continue;
      spec_.pre = name;
      return RequireSame();
    }
    Refuse("which cuts text as no pre-tokenizer of llama.cpp does that is known here");
  }

  /// Tokenizers made of a sentencepiece model: pieces that merge earlier have the higher scores.
  void MakeRankedSpec(const std::vector<std::pair<std::string, std::string>>& merges) {
    spec_.kind = "llama";
    spec_.pre = "default";
    std::unordered_map<std::string, size_t> ranks;
    for (size_t i = 0; i < merges.size(); ++i) {
      ranks.emplace(merges[i].first + merges[i].second, i);
    }
    for (size_t i = 0; i < count_; ++i) {
      const auto rank = ranks.find(spec_.tokens[i]);
      spec_.scores.push_back(
          -static_cast<float>(rank == ranks.end() ? merges.size() : rank->second));
      if (ByteOfPiece(spec_.tokens[i]) >= 0) {
        SetType(static_cast<int32_t>(i), PieceType::kByte);
      }
    }
    MarkUnknown();
    RequireSameWithSomePrefix();
  }
  void MarkUnknown() {
    if (spec_.unk) SetType(*spec_.unk, PieceType::kUnknown);
  }

  void FromSpm() {
    SpmAlgorithm algorithm = SpmAlgorithm::kBpe;
    const SpmVocabulary pieces = ReadSpmVocabulary(source_.bytes, algorithm);
    if (algorithm != SpmAlgorithm::kBpe) Refuse("a sentencepiece model that is not BPE");
    spec_.kind = "llama";
    spec_.pre = "default";
    for (size_t i = 0; i < count_; ++i) {
      const bool known = i < pieces.pieces.size();
      spec_.tokens.push_back(known ? pieces.pieces[i] : "[PAD" + std::to_string(i) + "]");
      spec_.scores.push_back(known ? pieces.scores[i] : -10000.0F);
      spec_.types.push_back(static_cast<int32_t>(known ? pieces.types[i] : PieceType::kUnused));
    }
    ReadSpecials();
    spec_.unk = pieces.unk;
    RequireSameWithSomePrefix();
  }

  void RequireSameWithSomePrefix() {
    spec_.add_space_prefix = true;
    if (GivesTheSame()) return;
    spec_.add_space_prefix = false;
    RequireSame();
  }
  bool GivesTheSame() const {
    const Tokenizer made = Tokenizer::FromVocabulary(spec_);
    return made.Encode(kTrial) == tokenizer_.Encode(kTrial) &&
           made.Encode("a") == tokenizer_.Encode("a");
  }
  void RequireSame() const {
    if (!GivesTheSame()) Refuse("whose tokens of a trial text come out otherwise from a GGUF");
  }

  const TokenizerSource& source_;
  Tokenizer tokenizer_;
  size_t count_;
  VocabularySpec spec_;
};

}  // namespace

VocabularySpec GgufSpecOf(const TokenizerSource& source, std::string_view architecture,
                          int64_t count) {
  return SpecMaker(source, architecture, count).Make();
}

}  // namespace oort::tokenizer
