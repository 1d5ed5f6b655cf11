// SPDX-License-Identifier: MIT
// Tokenizers from what a GGUF file says of its vocabulary.
#include <cmath>
#include <limits>
#include <utility>

#include "core/guard.h"
#include "oort/error.h"
#include "parser/checkpoint/families.h"
#include "text/utf8.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/pre_rules.h"
#include "tokenizer/spm.h"

namespace oort::tokenizer {
namespace {

Error BadVocabulary(const std::string& what) {
  return {ErrorCode::kInvalidModel, "the GGUF vocabulary " + what};
}

/// The spec with its lists checked and its defaults filled in.
class GgufVocabulary {
 public:
  explicit GgufVocabulary(const VocabularySpec& spec) : spec_(spec) {
    const size_t count = spec.tokens.size();
    if (count == 0) throw BadVocabulary("has no tokens");
    if (count > static_cast<size_t>(kMaxTokenId)) throw BadVocabulary("has too many tokens");
    if (!spec.scores.empty() && spec.scores.size() != count) {
      throw BadVocabulary("has " + std::to_string(spec.scores.size()) + " scores for " +
                          std::to_string(count) + " tokens");
    }
    if (!spec.types.empty() && spec.types.size() != count) {
      throw BadVocabulary("has " + std::to_string(spec.types.size()) + " types for " +
                          std::to_string(count) + " tokens");
    }
    for (size_t i = 0; i < count; ++i) {
      if (!text::IsValidUtf8(spec.tokens[i])) {
        throw BadVocabulary("has a token that is not UTF-8, id " + std::to_string(i));
      }
      types_.push_back(ReadType(i));
    }
  }

  PieceType type(size_t id) const { return types_[id]; }
  size_t count() const { return types_.size(); }

  /// An id of the file, or the default of the kind where it has none or one that cannot be.
  std::optional<int32_t> Special(std::optional<int32_t> id,
                                 std::optional<int32_t> otherwise) const {
    const auto valid = [&](std::optional<int32_t> value) {
      return value && *value >= 0 && static_cast<size_t>(*value) < count();
    };
    if (valid(id)) return id;
    return valid(otherwise) ? otherwise : std::nullopt;
  }

  /// Control, unknown and user-defined tokens are found in the text before anything else.
  std::vector<AddedToken> Added() const {
    const Family* const family = FindGgufFamily(spec_.architecture);
    const bool rstrip = family != nullptr && family->gguf_specials_rstrip;
    std::vector<AddedToken> out;
    for (size_t i = 0; i < count(); ++i) {
      const PieceType type = types_[i];
      if (type != PieceType::kControl && type != PieceType::kUnknown &&
          type != PieceType::kUserDefined) {
        continue;
      }
      AddedToken token;
      token.content = spec_.tokens[i];
      token.normalized = false;
      token.special = type != PieceType::kUserDefined;
      token.rstrip = rstrip && token.content != "<s>" && token.content != "<unk>" &&
                     token.content != "<|endoftext|>";
      token.lstrip = token.content == "<mask>" || token.content == "[MASK]";
      out.push_back(std::move(token));
    }
    return out;
  }

  SpmVocabulary Pieces(std::optional<int32_t> unk) const {
    SpmVocabulary out;
    out.pieces = spec_.tokens;
    out.scores = spec_.scores;
    if (out.scores.empty()) throw BadVocabulary("has no scores");
    for (const float score : out.scores) {
      if (!std::isfinite(score)) throw BadVocabulary("has a score that is not finite");
    }
    out.types = types_;
    out.unk = unk.value_or(0);
    size_t bytes = 0;
    for (size_t i = 0; i < count(); ++i) {
      if (types_[i] == PieceType::kByte && ByteOfPiece(spec_.tokens[i]) >= 0) ++bytes;
    }
    out.byte_fallback = bytes >= 256;
    return out;
  }

 private:
  PieceType ReadType(size_t id) const {
    if (spec_.types.empty()) {
      if (ByteOfPiece(spec_.tokens[id]) >= 0 && spec_.kind == "llama") return PieceType::kByte;
      const auto own = static_cast<int32_t>(id);
      const bool special = spec_.bos == own || spec_.eos == own || spec_.unk == own;
      return special ? PieceType::kControl : PieceType::kNormal;
    }
    const int32_t type = spec_.types[id];
    if (type == 0) return PieceType::kNormal;  // "undefined", in files of old converters
    if (type < 0 || type > 6) {
      throw BadVocabulary("gives token " + std::to_string(id) + " the unknown type " +
                          std::to_string(type));
    }
    return static_cast<PieceType>(type);
  }

  const VocabularySpec& spec_;
  std::vector<PieceType> types_;
};

/// Tokens before and after a text.
PostProcessorPtr SurroundedBy(std::optional<int32_t> before, std::optional<int32_t> after) {
  std::vector<TemplatePart> parts = {{{}, 0}};
  if (before) parts.insert(parts.begin(), {{*before}, -1});
  if (after) parts.push_back({{*after}, -1});
  return MakeTemplate(std::move(parts), {});
}

std::optional<int32_t> If(bool wanted, std::optional<int32_t> id) {
  return wanted ? id : std::nullopt;
}

Vocabulary AllTokens(const std::vector<std::string>& tokens) {
  Vocabulary out;
  for (size_t i = 0; i < tokens.size(); ++i) out.Add(tokens[i], static_cast<int64_t>(i));
  return out;
}

/// "left right"; the first character may itself be a space.
Merges ReadMerges(const std::vector<std::string>& lines) {
  Merges merges;
  merges.reserve(lines.size());
  for (const std::string& line : lines) {
    const size_t space = line.find(' ', 1);
    if (space == std::string::npos) {
      throw BadVocabulary("has the merge '" + line + "', expected two pieces");
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

/// ▁ to spaces, bytes to text, and without the space that encoding put in front.
DecoderPtr SpaceDecoder(bool strip_first) {
  std::vector<DecoderPtr> steps;
  steps.push_back(MakeReplaceDecoder(text::Regex::Literal(kSpaceSymbol), " "));
  steps.push_back(MakeByteFallbackDecoder());
  steps.push_back(MakeFuseDecoder());
  if (strip_first) steps.push_back(MakeStripDecoder(' ', 1, 0));
  return MakeDecoderSequence(std::move(steps));
}

Pipeline MakeGgufBpe(const VocabularySpec& spec, const GgufVocabulary& checked) {
  if (spec.merges.empty()) throw BadVocabulary("of kind '" + spec.kind + "' has no merges");
  Pipeline pipeline;
  Vocabulary vocabulary = AllTokens(spec.tokens);
  const bool bytes = CanTakeBytes(vocabulary);
  PreRule rule = PreRuleOf(spec.kind == "gemma4" ? "gemma4" : spec.pre, !bytes);
  BpeOptions options;
  options.ignore_merges = rule.ignore_merges;
  options.words_are_bytes = bytes && !rule.raw_text;
  options.byte_fallback = rule.raw_text;
  const auto unk = checked.Special(spec.unk, std::nullopt);
  if (rule.raw_text && unk) options.unk = spec.tokens[static_cast<size_t>(*unk)];
  options.fuse_unk = rule.raw_text;
  pipeline.normalizer = std::move(rule.normalizer);
  pipeline.pre_tokenizer = std::move(rule.pre_tokenizer);
  pipeline.model =
      MakeBpe(std::move(vocabulary), ReadMerges(spec.merges), std::move(options), true);
  pipeline.decoder = rule.raw_text ? SpaceDecoder(false) : MakeByteLevelDecoder();
  pipeline.bos = checked.Special(spec.bos, std::nullopt);
  pipeline.eos = checked.Special(spec.eos, std::nullopt);
  const bool add_sep = spec.add_sep.value_or(
      spec.pre == "jina-v1-en" || spec.pre == "jina-v2-code" || spec.pre == "roberta-bpe");
  auto after = If(spec.add_eos.value_or(false), pipeline.eos);
  if (!after) after = If(add_sep, checked.Special(spec.sep, std::nullopt));
  pipeline.post_processor =
      SurroundedBy(If(spec.add_bos.value_or(rule.add_bos), pipeline.bos), after);
  return pipeline;
}

Pipeline MakeGgufLlama(const VocabularySpec& spec, const GgufVocabulary& checked) {
  Pipeline pipeline;
  const bool prefix = spec.add_space_prefix.value_or(true);
  std::vector<NormalizerPtr> steps;
  if (prefix) steps.push_back(MakePrepend(std::string(kSpaceSymbol)));
  steps.push_back(MakeReplace(text::Regex::Literal(" "), std::string(kSpaceSymbol)));
  pipeline.normalizer = MakeNormalizerSequence(std::move(steps));
  SpmOptions options;
  options.algorithm = SpmAlgorithm::kBpe;
  pipeline.model = MakeSpm(checked.Pieces(checked.Special(spec.unk, 0)), options);
  pipeline.decoder = SpaceDecoder(prefix);
  pipeline.bos = checked.Special(spec.bos, 1);
  pipeline.eos = checked.Special(spec.eos, 2);
  pipeline.post_processor = SurroundedBy(If(spec.add_bos.value_or(true), pipeline.bos),
                                         If(spec.add_eos.value_or(false), pipeline.eos));
  return pipeline;
}

Pipeline MakeGgufUnigram(const VocabularySpec& spec, const GgufVocabulary& checked) {
  Pipeline pipeline;
  SpmTextOptions text;
  text.add_dummy_prefix = spec.add_space_prefix.value_or(false);
  text.remove_extra_whitespaces = spec.remove_extra_whitespaces.value_or(false);
  const auto unk = checked.Special(spec.unk, 2);
  SpmOptions options;
  options.f64 = true;
  pipeline.normalizer = MakeSpmNormalizer(spec.precompiled_charsmap, text, {});
  SpmVocabulary pieces = checked.Pieces(unk);
  pipeline.decoder = SpaceDecoder(text.add_dummy_prefix);
  pipeline.model = MakeSpm(std::move(pieces), options);
  pipeline.bos = checked.Special(spec.bos, std::nullopt);
  pipeline.eos = checked.Special(spec.eos, 1);
  pipeline.post_processor = SurroundedBy(If(spec.add_bos.value_or(false), pipeline.bos),
                                         If(spec.add_eos.value_or(true), pipeline.eos));
  return pipeline;
}

/// The converter marks the beginnings of words with ▁ and takes the ## off all other pieces.
Vocabulary WordPieces(const VocabularySpec& spec, const GgufVocabulary& checked) {
  Vocabulary out;
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    std::string piece = spec.tokens[i];
    if (piece.starts_with(kSpaceSymbol)) {
      piece.erase(0, kSpaceSymbol.size());
    } else if (checked.type(i) == PieceType::kNormal || checked.type(i) == PieceType::kUnused) {
      piece.insert(0, "##");
    }
    out.Add(piece, static_cast<int64_t>(i));
  }
  return out;
}

Pipeline MakeGgufBert(const VocabularySpec& spec, const GgufVocabulary& checked) {
  Pipeline pipeline;
  BertNormalizerOptions options;
  options.lowercase = spec.lowercase.value_or(true);
  options.strip_accents = spec.strip_accents.value_or(options.lowercase);
  pipeline.normalizer = MakeBertNormalizer(options);
  pipeline.pre_tokenizer = MakeBertPreTokenizer();
  const auto unk = checked.Special(spec.unk, 100);
  const std::string unk_piece = unk ? spec.tokens[static_cast<size_t>(*unk)] : "[UNK]";
  constexpr int64_t kLongestWord = 100;
  pipeline.model = MakeWordPiece(WordPieces(spec, checked), unk_piece, "##", kLongestWord);
  pipeline.decoder = MakeWordPieceDecoder("##", true);
  pipeline.bos = checked.Special(spec.bos, 101);
  pipeline.eos = checked.Special(spec.eos, std::nullopt);
  pipeline.post_processor =
      SurroundedBy(If(spec.add_bos.value_or(true), pipeline.bos),
                   If(spec.add_sep.value_or(true), checked.Special(spec.sep, 102)));
  return pipeline;
}

}  // namespace
}  // namespace oort::tokenizer

namespace oort {

Tokenizer Tokenizer::FromVocabulary(const VocabularySpec& spec) {
  return Guarded([&] {
    using namespace tokenizer;
    const GgufVocabulary checked(spec);
    Pipeline pipeline;
    if (spec.kind == "gpt2" || spec.kind == "gemma4") {
      pipeline = MakeGgufBpe(spec, checked);
    } else if (spec.kind == "llama") {
      pipeline = MakeGgufLlama(spec, checked);
    } else if (spec.kind == "t5") {
      pipeline = MakeGgufUnigram(spec, checked);
    } else if (spec.kind == "bert") {
      pipeline = MakeGgufBert(spec, checked);
    } else {
      throw Error(ErrorCode::kUnsupported, "the GGUF vocabulary is of the kind '" + spec.kind +
                                               "', expected gpt2, llama, bert, t5 or gemma4");
    }
    pipeline.added = AddedTokens(checked.Added(), pipeline.model->vocabulary(), nullptr);
    for (size_t i = 0; i < checked.count(); ++i) {
      pipeline.special.push_back(checked.type(i) == PieceType::kControl ||
                                 checked.type(i) == PieceType::kUnknown);
    }
    return MakeTokenizer(std::move(pipeline));
  });
}

}  // namespace oort
