// SPDX-License-Identifier: MIT
#include <cmath>
#include <initializer_list>

#include "core/problems.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/rotary.h"
#include "parser/huggingface/config.h"
#include "parser/huggingface/folder.h"
#include "parser/huggingface/vision.h"

namespace oort::huggingface {
namespace {

using Kind = RotaryScaling::Kind;

/// Parameters of one type of layers where the file has them for each; where layers of both types
/// turn alike, these must be the same.
std::optional<json::Object> OfType(const json::Object& parameters, std::string_view type,
                                   bool alike) {
  const json::Json* full = parameters.Find("full_attention");
  const json::Json* sliding = parameters.Find("sliding_attention");
  if (alike && full != nullptr && sliding != nullptr && *full != *sliding) {
    throw Error(ErrorCode::kUnsupported,
                parameters.what() + ": layers with different rotary embeddings");
  }
  if (const auto own = parameters.Member(type)) return own;
  if (!alike) return std::nullopt;
  return parameters.Member(type == "full_attention" ? "sliding_attention" : "full_attention");
}

bool HasTypes(const json::Object& parameters) {
  return parameters.Find("full_attention") != nullptr ||
         parameters.Find("sliding_attention") != nullptr;
}

/// rope_scaling of old files, rope_parameters of new ones, whichever says something.
std::optional<json::Object> ParametersOf(const json::Object& config, std::string_view type,
                                         bool alike) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const json::Json* value = config.Find(key);
    if (value == nullptr || (value->is_object() && value->empty())) continue;
    const auto parameters = config.Member(key);
    if (HasTypes(*parameters)) return OfType(*parameters, type, alike);
    // Old files of models with two kinds of layers scale those that see everything.
    if (!alike && type == "sliding_attention") return std::nullopt;
    return parameters;
  }
  return std::nullopt;
}

Kind KindNamed(std::string_view name, const DecoderConfig& decoder) {
  // "dynamic" changes nothing within the context that a model was made for.
  if (name == "default" || name == "dynamic") return Kind::kNone;
  if (name == "linear") return Kind::kLinear;
  if (name == "llama3") return Kind::kLlama3;
  const bool old_name = FamilyOf(decoder).yarn_is_longrope && (name == "su" || name == "yarn");
  if (name == "longrope" || old_name) return Kind::kLongrope;
  if (name == "yarn") return Kind::kYarn;
  throw Error(ErrorCode::kUnsupported,
              "rope scaling of type " + Quote(name) +
                  " is not known; default, linear, dynamic, llama3, yarn and longrope are");
}

std::string_view TypeOf(const json::Object& parameters) {
  if (const auto type = parameters.Text("rope_type")) return *type;
  return parameters.Text("type").value_or("default");
}

int64_t OriginalContext(const json::Object& config, const json::Object& parameters,
                        const DecoderConfig& decoder) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  if (const auto context = config.Integer(kKey)) return *context;
  if (const auto context = parameters.Integer(kKey)) return *context;
  const int64_t usual = FamilyOf(decoder).original_context;
  return usual > 0 ? usual : decoder.context;
}

RotaryScaling ReadScaling(const json::Object& config, const json::Object& parameters,
                          const DecoderConfig& decoder) {
  RotaryScaling scaling;
  scaling.kind = KindNamed(TypeOf(parameters), decoder);
  if (scaling.kind == Kind::kNone) return scaling;
  scaling.original_context = OriginalContext(config, parameters, decoder);
  const double stretch =
      scaling.original_context > 0
          ? static_cast<double>(decoder.context) / static_cast<double>(scaling.original_context)
          : 0;
  const bool may_follow = scaling.kind == Kind::kYarn || scaling.kind == Kind::kLongrope;
  const auto factor = parameters.Number("factor");
  if (!factor && !may_follow) {
    throw Error(ErrorCode::kInvalidModel, parameters.what() + ": 'factor' is missing");
  }
  scaling.factor = factor.value_or(stretch);
  scaling.low_frequency_factor = parameters.Number("low_freq_factor").value_or(1);
  scaling.high_frequency_factor = parameters.Number("high_freq_factor").value_or(4);
  const auto or_default = [](std::optional<double> number, double otherwise) {
    return number.value_or(0) == 0 ? otherwise : *number;
  };
  scaling.beta_fast = or_default(parameters.Number("beta_fast"), 32);
  scaling.beta_slow = or_default(parameters.Number("beta_slow"), 1);
  scaling.truncate = parameters.Bool("truncate").value_or(true);
  scaling.mscale = parameters.Number("mscale");
  scaling.mscale_all_dim = parameters.Number("mscale_all_dim");
  scaling.attention_factor = parameters.Number("attention_factor");
  scaling.short_factors = parameters.Floats("short_factor");
  scaling.long_factors = parameters.Floats("long_factor");
  return scaling;
}

/// What is said of the layers of one type.
RotarySource SourceOfType(const json::Object& config, const DecoderConfig& decoder,
                          std::string_view type, double base) {
  RotarySource source;
  const Family& family = FamilyOf(decoder);
  const bool alike = family.local_rotary_base == 0;
  const auto parameters = ParametersOf(config, type, alike);
  const auto number = [&](std::initializer_list<std::string_view> keys, double otherwise) {
    for (const std::string_view key : keys) {
      if (const auto own = parameters ? parameters->Number(key) : std::nullopt) return *own;
    }
    for (const std::string_view key : keys) {
      if (const auto own = config.Number(key)) return *own;
    }
    return otherwise;
  };
  // Other families do not look at it.
  const double part = family.partial_rotary > 0
                          ? number({"partial_rotary_factor", "rotary_pct"}, family.partial_rotary)
                          : 1;
  if (!(part > 0 && part <= 1)) {
    config.ThrowWrongType("partial_rotary_factor", "a number above 0 and up to 1");
  }
  if (decoder.head_dim < 0 || decoder.head_dim > 65536) return source;  // FinishConfig says so
  source.dims = static_cast<int64_t>(static_cast<double>(decoder.head_dim) * part);
  if (parameters) source.scaling = ReadScaling(config, *parameters, decoder);
  if (type == "sliding_attention") {
    const auto own = parameters ? parameters->Number("rope_theta") : std::nullopt;
    source.base = own ? *own : config.Number("rope_local_base_freq").value_or(base);
  } else {
    source.base = number({"rope_theta", "rotary_emb_base"}, base);
  }
  return source;
}

/// How these layers turn.
RotaryConfig RotaryOfType(const json::Object& config, const DecoderConfig& decoder,
                          std::string_view type, double base) {
  const RotarySource source = SourceOfType(config, decoder, type, base);
  if (decoder.head_dim < 0 || decoder.head_dim > 65536) return {};  // FinishConfig says so
  RotaryConfig rotary = MakeRotary(source.dims, source.base, source.scaling);
  rotary.interleaved = FamilyOf(decoder).interleaved_rotary;
  return rotary;
}

}  // namespace

void ReadRotary(const json::Object& config, DecoderConfig& decoder) {
  const Family& family = FamilyOf(decoder);
  decoder.rotary = RotaryOfType(config, decoder, "full_attention", family.rotary_base);
  if (family.local_rotary_base == 0) return;
  decoder.local_rotary =
      RotaryOfType(config, decoder, "sliding_attention", family.local_rotary_base);
}

double ReadAttentionMagnitude(const json::Object& config, const DecoderConfig& decoder) {
  const auto parameters = ParametersOf(config, "full_attention", true);
  if (!parameters || KindNamed(TypeOf(*parameters), decoder) == Kind::kNone) return 1;
  const double factor = parameters->Number("factor").value_or(1);
  const double share = parameters->Number("mscale_all_dim").value_or(0);
  const double magnitude = share == 0 || !(factor > 1) ? 1 : 0.1 * share * std::log(factor) + 1;
  return magnitude * magnitude;
}

RotarySource ReadRotarySource(const std::filesystem::path& folder, const DecoderConfig& decoder) {
  const auto text = Folder(folder).Text("config.json");
  if (!text) {
    throw Error(ErrorCode::kNotFound, Quote(folder.string()) + " has no config.json");
  }
  const json::Json config = LanguageConfig(json::Parse(*text, "config.json"));
  return SourceOfType(json::Object(config, "config.json"), decoder, "full_attention",
                      FamilyOf(decoder).rotary_base);
}

}  // namespace oort::huggingface
