// SPDX-License-Identifier: MIT
#include "tokenizer/pre_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "oort/error.h"
#include "tokenizer/spm.h"

namespace oort::tokenizer {
namespace {

/// How a family cuts its text. The last step is always ByteLevel, unless `raw`.
enum class Cut : unsigned char {
  kGpt2,        ///< GPT-2's pattern
  kDigitsGpt2,  ///< every digit alone, then GPT-2's pattern
  kFalcon,
  kDefault,   ///< what files without a name were made for, as far as anybody knows
  kPatterns,  ///< one pattern after the other, then nothing more
  kRaw,       ///< not at all
  kRawWords,  ///< at spaces, which vanish
};

struct Family {
  std::vector<std::string_view> names;
  Cut cut;
  std::vector<const char*> patterns = {};
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;
  bool digits_last = false;  ///< after the patterns every digit alone
};

#define OORT_APOSTROPHES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define OORT_TAIL R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define OORT_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define OORT_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define OORT_LEAD R"([^\r\n\p{L}\p{N}]?)"
// Words with their case: "HelloWorld" is two.
#define OORT_CASED(suffix) \
  OORT_LEAD OORT_UPPER "*" OORT_LOWER "+" suffix "|" OORT_LEAD OORT_UPPER "+" OORT_LOWER "*" suffix
#define OORT_CASED_TAIL R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" OORT_TAIL

constexpr const char* kLlama3 =
    OORT_APOSTROPHES R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" OORT_TAIL;
#define OORT_QWEN2 R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" OORT_TAIL
constexpr const char* kQwen2 = OORT_APOSTROPHES "|" OORT_QWEN2;
// Turkish has suffixes behind its own.
constexpr const char* kWithoutApostrophes = OORT_QWEN2;
constexpr const char* kQwen35 = OORT_APOSTROPHES
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" OORT_TAIL;
constexpr const char* kGpt4o = OORT_CASED(OORT_APOSTROPHES "?") R"(|\p{N}{1,3})" OORT_CASED_TAIL;
constexpr const char* kTekken = OORT_CASED("") R"(|\p{N})" OORT_CASED_TAIL;
#define OORT_DEEPSEEK3 \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
constexpr const char* kDeepSeek3 = OORT_DEEPSEEK3 R"( ?[\p{P}\p{S}]+[\r\n]*|)" OORT_TAIL;
constexpr const char* kSpark = OORT_DEEPSEEK3 R"( ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
// DeepSeek LLM lists its letters instead of naming a property.
constexpr const char* kDeepSeekLetters =
    R"(\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293)"
    R"(\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C)"
    R"(\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5)"
    R"(\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77)"
    R"(\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59)"
    R"(\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC)"
    R"(\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107)"
    R"(\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139)"
    R"(\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE)"
    R"(\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E)"
    R"(\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr const char* kDeepSeekMarks =
    R"(\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+)";
constexpr const char* kDeepSeekAsian = R"([\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+)";
constexpr const char* kAsian3 = R"([\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+)";
constexpr const char* kBloom = R"( ?[^(\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+)";
constexpr const char* kJais2 = OORT_APOSTROPHES
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|)"
    R"(\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr const char* kKimi = R"([\p{Han}]+|)"
                              R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
                              R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)" OORT_APOSTROPHES
                              R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
                              R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)" OORT_APOSTROPHES
                              R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" OORT_TAIL;
constexpr const char* kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoder =
    OORT_APOSTROPHES R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)" OORT_TAIL;
constexpr const char* kExaoneMoe = OORT_APOSTROPHES
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kMiniCpm5 =
    OORT_APOSTROPHES R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)" OORT_TAIL;
constexpr const char* kAfmoeAsian =
    R"([\u4E00-\u9FFF\u3400-\u4DBF\uF900-\uFAFF\u3040-\u309F\u30A0-\u30FF\uFF65-\uFF9F)"
    R"(\u2F00-\u2FDF\u0E40-\u0E7F\u0E80-\u0EFF\u1780-\u17FF\u1000-\u109F\uAA60-\uAA7F)"
    R"(\uA9E0-\uA9FF\uAC00-\uD7AF\u1100-\u11FF]+)";
constexpr const char* kYoutuAsian =
    R"([\uAC00-\uD7A3\u3131-\u318E]+|)"
    R"([\uFF01\u2026\u201C\u201D\u2018\u2019\u2014\uFF1A\uFF1B\uFF0C\u3001-\u303F\uFE30-\uFE4F]+|)"
    R"([\u3105-\u312F]+|[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+)";
// Groups of three digits, counted from the right.
constexpr const char* kDigitGroups = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";

const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0",
        "mellum", "jina-v1-en", "jina-v2-code", "roberta-bpe", "jais", "trillion",
        "granite-docling", "exaone4"},
       Cut::kGpt2},
      {{"modern-bert", "mpt", "olmo"}, Cut::kGpt2, {}, /*nfc=*/true},
      {{"starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       Cut::kDigitsGpt2},
      {{"command-r"}, Cut::kDigitsGpt2, {}, /*nfc=*/true},
      {{"falcon"}, Cut::kFalcon},
      {{"default", ""}, Cut::kDefault},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       Cut::kPatterns,
       {kLlama3},
       false,
       /*ignore_merges=*/true,
       /*add_bos=*/true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, Cut::kPatterns, {kLlama3}},
      {{"glm4", "glm5"}, Cut::kPatterns, {kLlama3}, false, /*ignore_merges=*/true},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"},
       Cut::kPatterns,
       {kQwen2},
       /*nfc=*/true},
      {{"stablelm2", "hunyuan", "solar-open", "grok-2"}, Cut::kPatterns, {kQwen2}},
      {{"qwen35"}, Cut::kPatterns, {kQwen35}, /*nfc=*/true},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, Cut::kPatterns, {kGpt4o}},
      {{"granite-embed-multi-97m"}, Cut::kPatterns, {kGpt4o}, false, /*ignore_merges=*/true},
      {{"tekken"}, Cut::kPatterns, {kTekken}, false, /*ignore_merges=*/true, /*add_bos=*/true},
      {{"deepseek-llm"},
       Cut::kPatterns,
       {R"([\r\n])", kDeepSeekLetters, kDeepSeekMarks, R"(\s+$)", kDeepSeekAsian},
       false,
       false,
       false,
       /*digits_last=*/true},
      {{"deepseek-coder"},
       Cut::kPatterns,
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekAsian},
       false,
       false,
       false,
       /*digits_last=*/true},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       Cut::kPatterns,
       {R"(\p{N}{1,3})", kAsian3, kDeepSeek3}},
      {{"spark2_5"}, Cut::kPatterns, {R"(\p{N}{1,3})", kAsian3, kSpark, R"(\p{N})"}},
      {{"ufakzeka"}, Cut::kPatterns, {kWithoutApostrophes}},
      {{"youtu"},
       Cut::kPatterns,
       {kYoutuAsian, OORT_CASED(OORT_APOSTROPHES "?") R"(|\p{N})" OORT_CASED_TAIL},
       false,
       /*ignore_merges=*/true},
      {{"poro-chat", "bloom", "gpt3-finnish"}, Cut::kPatterns, {kBloom}},
      {{"viking"}, Cut::kPatterns, {kBloom}, false, false, false, /*digits_last=*/true},
      {{"jais-2"}, Cut::kPatterns, {kJais2}},
      {{"tiny_aya", "cohere2moe"}, Cut::kPatterns, {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o}},
      {{"kimi-k2"}, Cut::kPatterns, {kKimi}},
      {{"superbpe"}, Cut::kPatterns, {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, Cut::kPatterns, {kBailing}},
      {{"seed-coder"}, Cut::kPatterns, {kSeedCoder}},
      {{"exaone-moe"}, Cut::kPatterns, {kExaoneMoe}},
      {{"minicpm5"}, Cut::kPatterns, {R"(\p{N}{1,3})", kMiniCpm5}, false, /*ignore_merges=*/true},
      {{"afmoe"}, Cut::kPatterns, {kDigitGroups, kAfmoeAsian, kDeepSeek3}},
      {{"laguna"}, Cut::kPatterns, {R"([^\n]+|[\n]+)", kQwen2}},
      {{"chameleon"},
       Cut::kPatterns,
       {R"(<sentinel:[0-9]+>)", R"((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)", R"(([\t\n]|    |  ))",
        R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])", kGpt2Pattern},
       false,
       false,
       /*add_bos=*/true},
      {{"gemma4", "granite-embed-multi-311m"}, Cut::kRaw, {}, false, false, /*add_bos=*/true},
      {{"sarvam-moe"}, Cut::kRaw},
      {{"whitespace"}, Cut::kRawWords},
  };
  return families;
}

#undef OORT_APOSTROPHES
#undef OORT_QWEN2
#undef OORT_DEEPSEEK3
#undef OORT_TAIL
#undef OORT_UPPER
#undef OORT_LOWER
#undef OORT_LEAD
#undef OORT_CASED
#undef OORT_CASED_TAIL

PreTokenizerPtr Isolated(const char* pattern) {
  return MakeSplit(text::Regex(pattern), SplitBehavior::kIsolated, false);
}

PreTokenizerPtr StepsOf(const Family& family, bool map_last) {
  std::vector<PreTokenizerPtr> steps;
  switch (family.cut) {
    case Cut::kRaw: return nullptr;
    case Cut::kRawWords: return MakeWhitespaceSplit();
    case Cut::kGpt2: break;
    case Cut::kDigitsGpt2: steps.push_back(MakeDigits(true)); break;
    case Cut::kFalcon:
      steps.push_back(MakePunctuation(SplitBehavior::kContiguous));
      steps.push_back(Isolated(kGpt2Pattern));
      steps.push_back(Isolated("[0-9][0-9][0-9]"));
      break;
    case Cut::kDefault:
      steps.push_back(Isolated(R"([\p{P}\$\+<=>\^~\|]+)"));
      steps.push_back(Isolated(kGpt2Pattern));
      steps.push_back(Isolated(R"(\p{N}+)"));
      steps.push_back(Isolated("[0-9][0-9][0-9]"));
      break;
    case Cut::kPatterns:
      for (const char* pattern : family.patterns) steps.push_back(Isolated(pattern));
      if (family.digits_last) steps.push_back(MakeDigits(true));
      break;
  }
  const bool pattern = family.cut == Cut::kGpt2 || family.cut == Cut::kDigitsGpt2;
  steps.push_back(MakeByteLevel(false, pattern, map_last));
  return MakePreTokenizerSequence(std::move(steps));
}

}  // namespace

PreRule PreRuleOf(std::string_view name, bool map_last) {
  for (const Family& family : Families()) {
    if (std::find(family.names.begin(), family.names.end(), name) == family.names.end()) continue;
    PreRule rule;
    rule.raw_text = family.cut == Cut::kRaw || family.cut == Cut::kRawWords;
    rule.ignore_merges = family.ignore_merges;
    rule.add_bos = family.add_bos;
    rule.pre_tokenizer = StepsOf(family, map_last);
    if (family.nfc) rule.normalizer = MakeFormNormalizer(text::NormalForm::kNfc);
    if (family.cut == Cut::kRaw) {
      rule.normalizer = MakeReplace(text::Regex::Literal(" "), std::string(kSpaceSymbol));
    }
    return rule;
  }
  throw Error(ErrorCode::kUnsupported, "the GGUF vocabulary wants the pre-tokenizer '" +
                                           std::string(name) + "', which is not known");
}

}  // namespace oort::tokenizer
