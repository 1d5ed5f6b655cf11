// SPDX-License-Identifier: MIT
#include "tokenizer/json_components.h"

#include <limits>
#include <utility>

#include "oort/error.h"
#include "text/base64.h"
#include "text/utf8.h"

namespace oort::tokenizer {
namespace {

Error UnknownComponent(const std::string& type, std::string_view kind) {
  return {ErrorCode::kUnsupported,
          "the tokenizer has the " + std::string(kind) + " '" + type + "', which is not known"};
}

/// {"String": …} or {"Regex": …}
text::Regex ReadPattern(const Object& component) {
  const Json& pattern = component.Require("pattern");
  if (pattern.is_object() && pattern.size() == 1) {
    const Object object(pattern, component.what());
    if (pattern.contains("String")) return text::Regex::Literal(object.RequireText("String"));
    if (pattern.contains("Regex")) return text::Regex(object.RequireText("Regex"));
  }
  throw Error(ErrorCode::kInvalidModel,
              component.what() + ": expected a pattern of {\"String\"} or {\"Regex\"}");
}

/// The one character of a string.
uint32_t CharacterOf(const std::string& text, std::string_view of) {
  size_t at = 0;
  if (!text.empty()) {
    const uint32_t c = text::NextCodePoint(text, at);
    if (at == text.size()) return c;
  }
  throw Error(ErrorCode::kInvalidModel,
              std::string(of) + ": expected one character, got '" + text + "'");
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

NormalizerPtr ReadBertNormalizer(const Object& component) {
  BertNormalizerOptions options;
  options.clean_text = component.RequireBool("clean_text");
  options.handle_chinese_chars = component.RequireBool("handle_chinese_chars");
  options.lowercase = component.RequireBool("lowercase");
  options.strip_accents = component.Bool("strip_accents").value_or(options.lowercase);
  return MakeBertNormalizer(options);
}

struct MetaspaceOptions {
  std::string replacement;
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

MetaspaceOptions ReadMetaspace(const Object& component) {
  MetaspaceOptions options;
  options.replacement = component.RequireText("replacement");
  CharacterOf(options.replacement, "Metaspace 'replacement'");
  const std::string scheme(component.Text("prepend_scheme").value_or("always"));
  if (scheme == "never") {
    options.scheme = PrependScheme::kNever;
  } else if (scheme == "first") {
    options.scheme = PrependScheme::kFirst;
  } else if (scheme != "always") {
    throw UnknownComponent(scheme, "prepend scheme");
  }
  if (!component.Bool("add_prefix_space").value_or(true) && scheme != "never") {
    throw Error(ErrorCode::kInvalidModel,
                "Metaspace: 'add_prefix_space' is false, but 'prepend_scheme' is '" + scheme + "'");
  }
  options.split = component.Bool("split").value_or(true);
  return options;
}

int32_t TokenId(const Json& value, const Object& component) {
  return static_cast<int32_t>(json::IntegerOf(value, component.what() + ": an id", kMaxTokenId));
}

/// 0 where a template leaves it out.
int32_t TypeIn(const Object& piece) {
  constexpr int64_t kMostTypes = 1 << 16;
  return piece.Find("type_id") == nullptr
             ? 0
             : static_cast<int32_t>(piece.RequireInteger("type_id", kMostTypes));
}

std::vector<TemplatePart> ReadTemplate(const Object& component, std::string_view name) {
  const Object special = component.RequireMember("special_tokens");
  std::vector<TemplatePart> parts;
  for (const Json& entry : component.RequireList(name)) {
    const Object piece(entry, component.what() + ": a piece of '" + std::string(name) + "'");
    TemplatePart part;
    if (const auto sequence = piece.Member("Sequence")) {
      const std::string id = sequence->RequireText("id");
      if (id != "A" && id != "B") throw UnknownComponent(id, "sequence");
      part.sequence = id == "A" ? 0 : 1;
      part.type = TypeIn(*sequence);
    } else {
      const Object token = piece.RequireMember("SpecialToken");
      const std::string id = token.RequireText("id");
      part.type = TypeIn(token);
      for (const Json& value : special.RequireMember(id).RequireList("ids")) {
        part.ids.push_back(TokenId(value, component));
      }
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// ["[SEP]", 102]
int32_t ReadNamedId(const Object& component, std::string_view name) {
  const Json& pair = component.RequireList(name);
  if (pair.size() != 2) {
    throw Error(ErrorCode::kInvalidModel,
                component.what() + ": expected [token, id] as '" + std::string(name) + "'");
  }
  return TokenId(pair[1], component);
}

/// A component, named in messages by its type.
Object ComponentOf(const Json& json, const std::string& kind) {
  return {json, Object(json, kind).RequireText("type")};
}

}  // namespace

NormalizerPtr ReadNormalizer(const Json& json) {
  const Object component = ComponentOf(json, "a normalizer");
  const std::string& type = component.what();
  if (type == "Sequence") {
    std::vector<NormalizerPtr> steps;
    for (const Json& step : component.RequireList("normalizers")) {
      steps.push_back(ReadNormalizer(step));
    }
    return MakeNormalizerSequence(std::move(steps));
  }
  if (type == "BertNormalizer") return ReadBertNormalizer(component);
  if (type == "NFC") return MakeFormNormalizer(text::NormalForm::kNfc);
  if (type == "NFD") return MakeFormNormalizer(text::NormalForm::kNfd);
  if (type == "NFKC") return MakeFormNormalizer(text::NormalForm::kNfkc);
  if (type == "NFKD") return MakeFormNormalizer(text::NormalForm::kNfkd);
  if (type == "Lowercase") return MakeLowercase();
  if (type == "Strip") {
    return MakeStrip(component.RequireBool("strip_left"), component.RequireBool("strip_right"));
  }
  if (type == "StripAccents") return MakeStripAccents();
  if (type == "Nmt") return MakeNmt();
  if (type == "Precompiled") {
    return MakePrecompiled(
        text::DecodeBase64(component.RequireText("precompiled_charsmap"), "precompiled_charsmap"));
  }
  if (type == "Replace") {
    return MakeReplace(ReadPattern(component), component.RequireText("content"));
  }
  if (type == "Prepend") return MakePrepend(component.RequireText("prepend"));
  if (type == "ByteLevel") return MakeByteLevelNormalizer();
  throw UnknownComponent(type, "normalizer");
}

bool EndsWithByteLevel(const Json& json) {
  const Object component = ComponentOf(json, "a pre-tokenizer");
  const std::string& type = component.what();
  if (type != "Sequence") return type == "ByteLevel";
  const Json& steps = component.RequireList("pretokenizers");
  return !steps.empty() && EndsWithByteLevel(steps.back());
}

PreTokenizerPtr ReadPreTokenizer(const Json& json, bool map_last) {
  const Object component = ComponentOf(json, "a pre-tokenizer");
  const std::string& type = component.what();
  if (type == "Sequence") {
    std::vector<PreTokenizerPtr> steps;
    const Json& list = component.RequireList("pretokenizers");
    for (size_t i = 0; i < list.size(); ++i) {
      steps.push_back(ReadPreTokenizer(list[i], map_last || i + 1 < list.size()));
    }
    return MakePreTokenizerSequence(std::move(steps));
  }
  if (type == "ByteLevel") {
    return MakeByteLevel(component.RequireBool("add_prefix_space"),
                         component.Bool("use_regex").value_or(true), map_last);
  }
  if (type == "Split") {
    return MakeSplit(ReadPattern(component), BehaviorOf(component.RequireText("behavior")),
                     component.RequireBool("invert"));
  }
  if (type == "Metaspace") {
    const MetaspaceOptions options = ReadMetaspace(component);
    return MakeMetaspace(options.replacement, options.scheme, options.split);
  }
  if (type == "Digits") return MakeDigits(component.RequireBool("individual_digits"));
  if (type == "Punctuation") {
    return MakePunctuation(
        BehaviorOf(std::string(component.Text("behavior").value_or("Isolated"))));
  }
  if (type == "Whitespace") return MakeWhitespace();
  if (type == "WhitespaceSplit") return MakeWhitespaceSplit();
  if (type == "BertPreTokenizer") return MakeBertPreTokenizer();
  if (type == "CharDelimiterSplit" || type == "Delimiter") {
    const std::string delimiter = component.RequireText("delimiter");
    CharacterOf(delimiter, "CharDelimiterSplit 'delimiter'");
    return MakeDelimiter(delimiter);
  }
  if (type == "UnicodeScripts") return MakeUnicodeScripts();
  if (type == "FixedLength") {
    const int64_t length =
        component.Find("length") == nullptr ? 5 : component.RequireInteger("length", kAnyCount);
    if (length == 0)
      throw Error(ErrorCode::kInvalidModel, "FixedLength: expected a length above 0");
    return MakeFixedLength(static_cast<size_t>(length));
  }
  throw UnknownComponent(type, "pre-tokenizer");
}

PostProcessorPtr ReadPostProcessor(const Json& json) {
  const Object component = ComponentOf(json, "a post-processor");
  const std::string& type = component.what();
  if (type == "Sequence") {
    std::vector<PostProcessorPtr> steps;
    for (const Json& step : component.RequireList("processors")) {
      steps.push_back(ReadPostProcessor(step));
    }
    return MakePostProcessorSequence(std::move(steps));
  }
  if (type == "TemplateProcessing") {
    auto single = ReadTemplate(component, "single");
    for (const TemplatePart& part : single) {
      if (part.sequence == 1) {
        throw Error(ErrorCode::kInvalidModel, "the template of a single text names a second one");
      }
    }
    return MakeTemplate(std::move(single), ReadTemplate(component, "pair"));
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return MakeAround(ReadNamedId(component, "cls"), ReadNamedId(component, "sep"),
                      type == "RobertaProcessing");
  }
  if (type == "ByteLevel") return MakePostProcessorSequence({});  // it only changes offsets
  throw UnknownComponent(type, "post-processor");
}

DecoderPtr ReadDecoder(const Json& json) {
  const Object component = ComponentOf(json, "a decoder");
  const std::string& type = component.what();
  if (type == "Sequence") {
    std::vector<DecoderPtr> steps;
    for (const Json& step : component.RequireList("decoders")) steps.push_back(ReadDecoder(step));
    return MakeDecoderSequence(std::move(steps));
  }
  if (type == "ByteLevel") return MakeByteLevelDecoder();
  if (type == "ByteFallback") return MakeByteFallbackDecoder();
  if (type == "Fuse") return MakeFuseDecoder();
  if (type == "Strip") {
    return MakeStripDecoder(CharacterOf(component.RequireText("content"), "Strip 'content'"),
                            static_cast<size_t>(component.RequireInteger("start", kAnyCount)),
                            static_cast<size_t>(component.RequireInteger("stop", kAnyCount)));
  }
  if (type == "Replace") {
    return MakeReplaceDecoder(ReadPattern(component), component.RequireText("content"));
  }
  if (type == "Metaspace") {
    const MetaspaceOptions options = ReadMetaspace(component);
    return MakeMetaspaceDecoder(CharacterOf(options.replacement, type),
                                options.scheme != PrependScheme::kNever);
  }
  if (type == "WordPiece") {
    return MakeWordPieceDecoder(component.RequireText("prefix"), component.RequireBool("cleanup"));
  }
  if (type == "BPEDecoder") return MakeBpeDecoder(component.RequireText("suffix"));
  if (type == "CTC") {
    return MakeCtcDecoder(component.RequireText("pad_token"),
                          component.RequireText("word_delimiter_token"),
                          component.RequireBool("cleanup"));
  }
  throw UnknownComponent(type, "decoder");
}

}  // namespace oort::tokenizer
