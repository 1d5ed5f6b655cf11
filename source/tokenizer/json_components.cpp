// SPDX-License-Identifier: MIT
#include "tokenizer/json_components.h"

#include <limits>
#include <utility>

#include "oort/error.h"

namespace oort::llm {
namespace {

Error UnknownComponent(const std::string& type, std::string_view kind) {
  return {ErrorCode::kUnsupported,
          "the tokenizer has the " + std::string(kind) + " '" + type + "', which is not known"};
}

/// {"String": …} or {"Regex": …}
Regex ReadPattern(const Json& json, std::string_view of) {
  const Json& pattern = NeededMember(json, "pattern", of);
  if (pattern.is_object() && pattern.size() == 1) {
    if (pattern.contains("String")) return Regex::Literal(StringMember(pattern, "String", of));
    if (pattern.contains("Regex")) return Regex(StringMember(pattern, "Regex", of));
  }
  throw Error(ErrorCode::kInvalidModel,
              std::string(of) + ": expected a pattern of {\"String\"} or {\"Regex\"}");
}

SplitBehavior BehaviorOf(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw UnknownComponent(name, "split behavior");
}

constexpr int64_t kAnyCount = std::numeric_limits<int32_t>::max();

NormalizerPtr ReadBertNormalizer(const Json& json) {
  BertNormalizerOptions options;
  options.clean_text = BoolMember(json, "clean_text", "BertNormalizer");
  options.handle_chinese_chars = BoolMember(json, "handle_chinese_chars", "BertNormalizer");
  options.lowercase = BoolMember(json, "lowercase", "BertNormalizer");
  options.strip_accents = BoolMember(json, "strip_accents", "BertNormalizer", options.lowercase);
  return MakeBertNormalizer(options);
}

struct MetaspaceOptions {
  std::string replacement;
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

MetaspaceOptions ReadMetaspace(const Json& json) {
  MetaspaceOptions options;
  options.replacement = StringMember(json, "replacement", "Metaspace");
  CharacterOf(options.replacement, "Metaspace 'replacement'");
  const std::string scheme = OptionalString(json, "prepend_scheme", "Metaspace").value_or("always");
  if (scheme == "never") {
    options.scheme = PrependScheme::kNever;
  } else if (scheme == "first") {
    options.scheme = PrependScheme::kFirst;
  } else if (scheme != "always") {
    throw UnknownComponent(scheme, "prepend scheme");
  }
  if (!BoolMember(json, "add_prefix_space", "Metaspace", true) && scheme != "never") {
    throw Error(ErrorCode::kInvalidModel,
                "Metaspace: 'add_prefix_space' is false, but 'prepend_scheme' is '" + scheme + "'");
  }
  options.split = BoolMember(json, "split", "Metaspace", true);
  return options;
}

int32_t TokenId(const Json& json, std::string_view of) {
  return static_cast<int32_t>(NumberOf(json, of, kMaxTokenId));
}

std::vector<TemplatePart> ReadTemplate(const Json& json, const char* name) {
  constexpr std::string_view kOf = "TemplateProcessing";
  const Json& special = NeededMember(json, "special_tokens", kOf);
  if (!special.is_object()) {
    throw Error(ErrorCode::kInvalidModel,
                "TemplateProcessing: expected an object as 'special_tokens', got " +
                    std::string(special.type_name()));
  }
  std::vector<TemplatePart> parts;
  for (const Json& piece : ArrayMember(json, name, kOf)) {
    TemplatePart part;
    if (const Json* sequence = Member(piece, "Sequence")) {
      const std::string id = StringMember(*sequence, "id", kOf);
      if (id != "A" && id != "B") throw UnknownComponent(id, "sequence");
      part.sequence = id == "A" ? 0 : 1;
    } else {
      const Json& token = NeededMember(piece, "SpecialToken", kOf);
      const std::string id = StringMember(token, "id", kOf);
      const Json& entry = NeededMember(special, id.c_str(), "TemplateProcessing's special tokens");
      for (const Json& value : ArrayMember(entry, "ids", kOf)) {
        part.ids.push_back(TokenId(value, kOf));
      }
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// ["[SEP]", 102]
int32_t ReadNamedId(const Json& json, const char* name, std::string_view of) {
  const Json& pair = ArrayMember(json, name, of);
  if (pair.size() != 2) {
    throw Error(ErrorCode::kInvalidModel,
                std::string(of) + ": expected [token, id] as '" + name + "'");
  }
  return TokenId(pair[1], of);
}

}  // namespace

NormalizerPtr ReadNormalizer(const Json& json) {
  const std::string type = TypeOf(json, "a normalizer");
  if (type == "Sequence") {
    std::vector<NormalizerPtr> steps;
    for (const Json& step : ArrayMember(json, "normalizers", type)) {
      steps.push_back(ReadNormalizer(step));
    }
    return MakeNormalizerSequence(std::move(steps));
  }
  if (type == "BertNormalizer") return ReadBertNormalizer(json);
  if (type == "NFC") return MakeFormNormalizer(NormalForm::kNfc);
  if (type == "NFD") return MakeFormNormalizer(NormalForm::kNfd);
  if (type == "NFKC") return MakeFormNormalizer(NormalForm::kNfkc);
  if (type == "NFKD") return MakeFormNormalizer(NormalForm::kNfkd);
  if (type == "Lowercase") return MakeLowercase();
  if (type == "Strip") {
    return MakeStrip(BoolMember(json, "strip_left", type), BoolMember(json, "strip_right", type));
  }
  if (type == "StripAccents") return MakeStripAccents();
  if (type == "Nmt") return MakeNmt();
  if (type == "Precompiled") {
    return MakePrecompiled(
        DecodeBase64(StringMember(json, "precompiled_charsmap", type), "precompiled_charsmap"));
  }
  if (type == "Replace") {
    return MakeReplace(ReadPattern(json, type), StringMember(json, "content", type));
  }
  if (type == "Prepend") return MakePrepend(StringMember(json, "prepend", type));
  if (type == "ByteLevel") return MakeByteLevelNormalizer();
  throw UnknownComponent(type, "normalizer");
}

bool EndsWithByteLevel(const Json& json) {
  const std::string type = TypeOf(json, "a pre-tokenizer");
  if (type != "Sequence") return type == "ByteLevel";
  const Json& steps = ArrayMember(json, "pretokenizers", type);
  return !steps.empty() && EndsWithByteLevel(steps.back());
}

PreTokenizerPtr ReadPreTokenizer(const Json& json, bool map_last) {
  const std::string type = TypeOf(json, "a pre-tokenizer");
  if (type == "Sequence") {
    std::vector<PreTokenizerPtr> steps;
    const Json& list = ArrayMember(json, "pretokenizers", type);
    for (size_t i = 0; i < list.size(); ++i) {
      steps.push_back(ReadPreTokenizer(list[i], map_last || i + 1 < list.size()));
    }
    return MakePreTokenizerSequence(std::move(steps));
  }
  if (type == "ByteLevel") {
    return MakeByteLevel(BoolMember(json, "add_prefix_space", type),
                         BoolMember(json, "use_regex", type, true), map_last);
  }
  if (type == "Split") {
    return MakeSplit(ReadPattern(json, type), BehaviorOf(StringMember(json, "behavior", type)),
                     BoolMember(json, "invert", type));
  }
  if (type == "Metaspace") {
    const MetaspaceOptions options = ReadMetaspace(json);
    return MakeMetaspace(options.replacement, options.scheme, options.split);
  }
  if (type == "Digits") return MakeDigits(BoolMember(json, "individual_digits", type));
  if (type == "Punctuation") {
    return MakePunctuation(BehaviorOf(OptionalString(json, "behavior", type).value_or("Isolated")));
  }
  if (type == "Whitespace") return MakeWhitespace();
  if (type == "WhitespaceSplit") return MakeWhitespaceSplit();
  if (type == "BertPreTokenizer") return MakeBertPreTokenizer();
  if (type == "CharDelimiterSplit" || type == "Delimiter") {
    const std::string delimiter = StringMember(json, "delimiter", type);
    CharacterOf(delimiter, "CharDelimiterSplit 'delimiter'");
    return MakeDelimiter(delimiter);
  }
  if (type == "UnicodeScripts") return MakeUnicodeScripts();
  if (type == "FixedLength") {
    const int64_t length =
        Member(json, "length") == nullptr ? 5 : NumberMember(json, "length", type, kAnyCount);
    if (length == 0)
      throw Error(ErrorCode::kInvalidModel, "FixedLength: expected a length above 0");
    return MakeFixedLength(static_cast<size_t>(length));
  }
  throw UnknownComponent(type, "pre-tokenizer");
}

PostProcessorPtr ReadPostProcessor(const Json& json) {
  const std::string type = TypeOf(json, "a post-processor");
  if (type == "Sequence") {
    std::vector<PostProcessorPtr> steps;
    for (const Json& step : ArrayMember(json, "processors", type)) {
      steps.push_back(ReadPostProcessor(step));
    }
    return MakePostProcessorSequence(std::move(steps));
  }
  if (type == "TemplateProcessing") {
    auto single = ReadTemplate(json, "single");
    for (const TemplatePart& part : single) {
      if (part.sequence == 1) {
        throw Error(ErrorCode::kInvalidModel, "the template of a single text names a second one");
      }
    }
    return MakeTemplate(std::move(single), ReadTemplate(json, "pair"));
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return MakeAround(ReadNamedId(json, "cls", type), ReadNamedId(json, "sep", type),
                      type == "RobertaProcessing");
  }
  if (type == "ByteLevel") return MakePostProcessorSequence({});  // it only changes offsets
  throw UnknownComponent(type, "post-processor");
}

DecoderPtr ReadDecoder(const Json& json) {
  const std::string type = TypeOf(json, "a decoder");
  if (type == "Sequence") {
    std::vector<DecoderPtr> steps;
    for (const Json& step : ArrayMember(json, "decoders", type)) steps.push_back(ReadDecoder(step));
    return MakeDecoderSequence(std::move(steps));
  }
  if (type == "ByteLevel") return MakeByteLevelDecoder();
  if (type == "ByteFallback") return MakeByteFallbackDecoder();
  if (type == "Fuse") return MakeFuseDecoder();
  if (type == "Strip") {
    return MakeStripDecoder(CharacterOf(StringMember(json, "content", type), "Strip 'content'"),
                            static_cast<size_t>(NumberMember(json, "start", type, kAnyCount)),
                            static_cast<size_t>(NumberMember(json, "stop", type, kAnyCount)));
  }
  if (type == "Replace") {
    return MakeReplaceDecoder(ReadPattern(json, type), StringMember(json, "content", type));
  }
  if (type == "Metaspace") {
    const MetaspaceOptions options = ReadMetaspace(json);
    return MakeMetaspaceDecoder(CharacterOf(options.replacement, type),
                                options.scheme != PrependScheme::kNever);
  }
  if (type == "WordPiece") {
    return MakeWordPieceDecoder(StringMember(json, "prefix", type),
                                BoolMember(json, "cleanup", type));
  }
  if (type == "BPEDecoder") return MakeBpeDecoder(StringMember(json, "suffix", type));
  if (type == "CTC") {
    return MakeCtcDecoder(StringMember(json, "pad_token", type),
                          StringMember(json, "word_delimiter_token", type),
                          BoolMember(json, "cleanup", type));
  }
  throw UnknownComponent(type, "decoder");
}

}  // namespace oort::llm
