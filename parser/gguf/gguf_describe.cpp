// SPDX-License-Identifier: MIT
#include "parser/gguf/gguf_describe.h"

#include <algorithm>
#include <cmath>

#include "core/problems.h"
#include "parser/checkpoint/families.h"
#include "parser/gguf/gguf_names.h"

namespace oort::gguf {
namespace {

constexpr const char* kElsewhere = "; write a .pnnx.param instead of a .gguf";

/// Adds the keys of one architecture.
class Description {
 public:
  Description(const DecoderConfig& config, Writer& writer)
      : config_(config),
        family_(FamilyOf(config)),
        architecture_(ArchitectureOf(config)),
        writer_(writer) {}

  /// What llama.cpp takes for granted of a family.
  void RequireUsual() const {
    const DecoderConfig usual = RequireFamily(config_.family);
    if (config_.activation != usual.activation) Refuse("this activation");
    if (!config_.windows.empty()) RequireUsualWindows();
    const double head = static_cast<double>(config_.head_dim);
    const double whole = static_cast<double>(config_.hidden) / static_cast<double>(config_.heads);
    // llama.cpp knows the largest gemma2 by its layers.
    constexpr int64_t kLayersOfLargestGemma2 = 46;
    const bool largest = family_.softcaps && config_.layers == kLayersOfLargestGemma2;
    const double scale = 1 / std::sqrt(largest ? whole : head);
    if (std::abs(static_cast<double>(config_.attention_scale) / scale - 1) > 1e-5) {
      Refuse("this scale of attention");
    }
  }

  void Sizes() {
    writer_.AddText("general.architecture", architecture_);
    writer_.AddText("general.type", "model");
    Integer("vocab_size", config_.vocabulary);
    Integer("context_length", config_.context);
    Integer("embedding_length", config_.hidden);
    Integer("block_count", config_.layers);
    Integer("feed_forward_length", config_.intermediate);
    Integer("attention.head_count", config_.heads);
    Integer("attention.head_count_kv", config_.kv_heads);
    Integer("attention.key_length", config_.head_dim);
    Integer("attention.value_length", config_.head_dim);
    Float(config_.norm == DecoderConfig::Norm::kRms ? "attention.layer_norm_rms_epsilon"
                                                    : "attention.layer_norm_epsilon",
          config_.norm_epsilon);
    if (config_.attention_softcap > 0) Float("attn_logit_softcapping", config_.attention_softcap);
    if (config_.final_softcap > 0) Float("final_logit_softcapping", config_.final_softcap);
    const int64_t window = Window();
    if (window > 0) Integer("attention.sliding_window", window);
  }

  std::vector<RotaryTensor> Rotary(const RotarySource& source) {
    using Kind = RotaryScaling::Kind;
    const RotaryScaling& scaling = source.scaling;
    Integer("rope.dimension_count", source.dims);
    Float("rope.freq_base", static_cast<float>(source.base));
    switch (scaling.kind) {
      case Kind::kNone: return {};
      case Kind::kLinear:
        Text("rope.scaling.type", "linear");
        Float("rope.scaling.factor", static_cast<float>(scaling.factor));
        return {};
      case Kind::kYarn: return Yarn(scaling), std::vector<RotaryTensor>();
      case Kind::kLlama3:
      case Kind::kDivided: return Divisors(source);
      case Kind::kLongrope: Refuse("this rope scaling");
    }
    return {};
  }

 private:
  [[noreturn]] void Refuse(const std::string& what) const {
    throw Error(ErrorCode::kUnsupported, "a GGUF of the family " + Quote(architecture_) +
                                             " cannot have " + what + kElsewhere);
  }

  void Integer(std::string_view name, int64_t value) {
    writer_.AddInteger(Key(name), static_cast<uint32_t>(value));  // FinishConfig has bounded it
  }
  void Float(std::string_view name, float value) { writer_.AddFloat(Key(name), value); }
  void Text(std::string_view name, std::string_view value) { writer_.AddText(Key(name), value); }
  std::string Key(std::string_view name) const { return architecture_ + "." + std::string(name); }

  int64_t Window() const {
    return config_.windows.empty() ? 0 : *std::ranges::max_element(config_.windows);
  }
  /// A window as long as the context hides nothing.
  void RequireUsualWindows() const {
    const int64_t window = Window();
    if (window == 0 || window >= config_.context) return;
    const bool every_second = family_.windows == Family::Windows::kEven;
    const Family* written = FindGgufFamily(architecture_);
    if (written == nullptr || !written->gguf_window) Refuse("layers with windows");
    for (size_t i = 0; i < config_.windows.size(); ++i) {
      const int64_t usual = every_second && i % 2 == 1 ? 0 : window;
      if (config_.windows[i] != usual) Refuse("these windows of layers");
    }
  }

  void Yarn(const RotaryScaling& scaling) {
    Text("rope.scaling.type", "yarn");
    Float("rope.scaling.factor", static_cast<float>(scaling.factor));
    Integer("rope.scaling.original_context_length", scaling.original_context);
    if (!scaling.truncate) Refuse("a ramp of yarn that is not truncated");
    if (scaling.beta_fast != 32) {
      Float("rope.scaling.yarn_beta_fast", static_cast<float>(scaling.beta_fast));
    }
    if (scaling.beta_slow != 1) {
      Float("rope.scaling.yarn_beta_slow", static_cast<float>(scaling.beta_slow));
    }
    // llama.cpp multiplies by what yarn says itself.
    const double own = scaling.factor > 1 ? 0.1 * std::log(scaling.factor) + 1 : 1;
    const double more = static_cast<double>(config_.rotary.magnitude) / own;
    if (std::abs(more - 1) > 1e-6) {
      Float("rope.scaling.attn_factor", static_cast<float>(more));
    }
  }

  /// What the plain frequencies are divided by; llama.cpp has a place for it in one family alone.
  std::vector<RotaryTensor> Divisors(const RotarySource& source) const {
    if (architecture_ != "llama") Refuse("this rope scaling");
    RotaryTensor tensor{"rope_freqs.weight", {}};
    for (size_t i = 0; i < config_.rotary.frequencies.size(); ++i) {
      const double plain =
          std::pow(source.base, -2 * static_cast<double>(i) / static_cast<double>(source.dims));
      tensor.values.push_back(
          static_cast<float>(plain / static_cast<double>(config_.rotary.frequencies[i])));
    }
    return {std::move(tensor)};
  }

  const DecoderConfig& config_;
  const Family& family_;
  std::string architecture_;
  Writer& writer_;
};

}  // namespace

std::string ArchitectureOf(const DecoderConfig& config) {
  return std::string(RequireWrittenFamily(config).architecture);
}

std::vector<RotaryTensor> DescribeModel(const DecoderConfig& config, const RotarySource& rotary,
                                        Writer& writer) {
  Description description(config, writer);
  description.RequireUsual();
  description.Sizes();
  return config.learned_positions ? std::vector<RotaryTensor>() : description.Rotary(rotary);
}

void DescribeTokenizer(const VocabularySpec& spec, const std::vector<int32_t>& end_tokens,
                       const std::vector<NamedTemplate>& templates, Writer& writer) {
  const auto key = [](std::string_view name) { return "tokenizer.ggml." + std::string(name); };
  const auto id = [&](std::string_view name, std::optional<int32_t> token) {
    if (token) writer.AddInteger(key(name), static_cast<uint32_t>(*token));
  };
  writer.AddText(key("model"), spec.kind);
  writer.AddText(key("pre"), spec.pre);
  writer.AddTexts(key("tokens"), spec.tokens);
  writer.AddIntegers(key("token_type"), spec.types);
  if (!spec.scores.empty()) writer.AddFloats(key("scores"), spec.scores);
  if (!spec.merges.empty()) writer.AddTexts(key("merges"), spec.merges);
  std::vector<int32_t> ends = end_tokens;
  if (spec.eos && std::ranges::find(ends, *spec.eos) == ends.end()) {
    ends.insert(ends.begin(), *spec.eos);
  } else if (spec.eos) {
    std::rotate(ends.begin(), std::ranges::find(ends, *spec.eos), ends.end());
  }
  constexpr std::string_view kEnds[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
  for (size_t i = 0; i < std::min(ends.size(), std::size(kEnds)); ++i) id(kEnds[i], ends[i]);
  id("bos_token_id", spec.bos);
  id("unknown_token_id", spec.unk);
  id("padding_token_id", spec.pad);
  if (spec.add_bos) writer.AddBool(key("add_bos_token"), *spec.add_bos);
  if (spec.add_eos) writer.AddBool(key("add_eos_token"), *spec.add_eos);
  if (spec.add_space_prefix) writer.AddBool(key("add_space_prefix"), *spec.add_space_prefix);
  std::vector<std::string> named;
  for (const NamedTemplate& each : templates) {
    const bool is_default = each.name == "default";
    if (!is_default) named.push_back(each.name);
    writer.AddText("tokenizer.chat_template" + (is_default ? "" : "." + each.name), each.text);
  }
  if (!named.empty()) writer.AddTexts("tokenizer.chat_templates", named);
}

}  // namespace oort::gguf
