// SPDX-License-Identifier: MIT
#include "parser/huggingface/encoder_decoder.h"

#include <cmath>
#include <iterator>
#include <set>

#include "core/problems.h"
#include "oort/error.h"
#include "parser/huggingface/folder.h"
#include "parser/huggingface/plain_folder.h"
#include "text/json.h"

namespace oort {
namespace {

using huggingface::ActivationOf;
using huggingface::Folder;
using huggingface::SizeIn;

struct EncoderDecoderFamily {
  std::string_view name;
  EncoderDecoderNames names;
  bool is_t5;  ///< keys of config.json, norms and biases are T5's, else BART's
};

constexpr EncoderDecoderNames kT5Names = {
    .shared = "shared",
    .encoder = "encoder.",
    .decoder = "decoder.",
    .layers = "block.",
    .self_attention = "layer.0.SelfAttention.",
    .cross_attention = "layer.1.EncDecAttention.",
    .query = "q",
    .key = "k",
    .value = "v",
    .output = "o",
    .self_norm = "layer.0.layer_norm",
    .cross_norm = "layer.1.layer_norm",
    .encoder_feed = "layer.1.",
    .decoder_feed = "layer.2.",
    .feed_norm = "layer_norm",
    .up = "DenseReluDense.wi",
    .gate = "DenseReluDense.wi_0",
    .gated_up = "DenseReluDense.wi_1",
    .down = "DenseReluDense.wo",
    .first_norm = {},
    .final_norm = "final_layer_norm",
    .positions = {},
    .relative = "block.0.layer.0.SelfAttention.relative_attention_bias",
};
constexpr EncoderDecoderNames kBartNames = {
    .shared = "model.shared",
    .encoder = "model.encoder.",
    .decoder = "model.decoder.",
    .layers = "layers.",
    .self_attention = "self_attn.",
    .cross_attention = "encoder_attn.",
    .query = "q_proj",
    .key = "k_proj",
    .value = "v_proj",
    .output = "out_proj",
    .self_norm = "self_attn_layer_norm",
    .cross_norm = "encoder_attn_layer_norm",
    .encoder_feed = {},
    .decoder_feed = {},
    .feed_norm = "final_layer_norm",
    .up = "fc1",
    .gate = {},
    .gated_up = {},
    .down = "fc2",
    .first_norm = "layernorm_embedding",
    .final_norm = {},
    .positions = "embed_positions",
    .relative = {},
};
constexpr EncoderDecoderFamily kEncoderDecoders[] = {
    {"bart", kBartNames, false}, {"mt5", kT5Names, true}, {"t5", kT5Names, true}};

const EncoderDecoderFamily* FindEncoderDecoder(std::string_view name) {
  for (const EncoderDecoderFamily& family : kEncoderDecoders) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

constexpr int64_t kMostLayersOfStack = 4096;

void ReadT5(const json::Object& file, EncoderDecoderConfig& config) {
  config.heads = SizeIn(file, "num_heads", 8, 65536);
  config.head_dim = SizeIn(file, "d_kv", 64, 65536);
  config.encoder_layers = SizeIn(file, "num_layers", 6, kMostLayersOfStack);
  config.decoder_layers =
      SizeIn(file, "num_decoder_layers", config.encoder_layers, kMostLayersOfStack);
  config.encoder_intermediate = config.decoder_intermediate =
      SizeIn(file, "d_ff", 2048, int64_t{1} << 24);
  config.rms_norms = true;
  config.epsilon = static_cast<float>(file.Number("layer_norm_epsilon").value_or(1e-6));
  config.buckets = SizeIn(file, "relative_attention_num_buckets", 32, 65536);
  config.max_distance = SizeIn(file, "relative_attention_max_distance", 128);
  if (config.buckets < 4 || config.max_distance <= config.buckets / 2) {
    file.ThrowWrongType("relative_attention_num_buckets", "4 or more, below the largest distance");
  }
  std::string_view feed = file.Text("feed_forward_proj").value_or("relu");
  constexpr std::string_view kGated = "gated-";
  config.gated = feed.starts_with(kGated);
  if (config.gated) feed.remove_prefix(kGated.size());
  config.activation =
      config.gated && feed == "gelu" ? Activation::kGeluTanh : ActivationOf(file, feed);
  // Those whose head is not the embeddings do not scale what goes into it.
  const bool tied = file.Bool("tie_word_embeddings").value_or(true);
  if (file.Bool("scale_decoder_outputs").value_or(tied)) {
    config.logit_scale = 1 / std::sqrt(static_cast<float>(config.hidden));
  }
}

void ReadBart(const json::Object& file, EncoderDecoderConfig& config) {
  config.heads = SizeIn(file, "encoder_attention_heads", 16, 65536);
  if (config.heads != SizeIn(file, "decoder_attention_heads", 16, 65536) ||
      config.hidden % config.heads != 0) {
    throw Error(ErrorCode::kUnsupported,
                file.what() + ": encoder and decoder have other heads, or heads of no whole size");
  }
  config.head_dim = config.hidden / config.heads;
  config.encoder_layers = SizeIn(file, "encoder_layers", 12, kMostLayersOfStack);
  config.decoder_layers = SizeIn(file, "decoder_layers", 12, kMostLayersOfStack);
  config.encoder_intermediate = SizeIn(file, "encoder_ffn_dim", 4096, int64_t{1} << 24);
  config.decoder_intermediate = SizeIn(file, "decoder_ffn_dim", 4096, int64_t{1} << 24);
  config.post_norms = true;
  config.epsilon = 1e-5F;
  config.positions = SizeIn(file, "max_position_embeddings", 1024);
  config.activation = ActivationOf(file, file.Text("activation_function").value_or("gelu"));
  config.attention_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  if (file.Bool("scale_embedding").value_or(false)) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  }
}

std::optional<int32_t> TokenIn(const json::Object& file, std::string_view key, int64_t vocabulary) {
  const auto token = file.IsNull(key) ? std::nullopt : file.Integer(key);
  if (!token) return std::nullopt;
  if (*token < 0 || *token >= vocabulary) file.ThrowWrongType(key, "a token of the vocabulary");
  return static_cast<int32_t>(*token);
}

void ReadEnds(const json::Object& file, EncoderDecoderConfig& config) {
  const json::Json* ends = file.Find("eos_token_id");
  if (ends == nullptr) return;
  const json::Json list = ends->is_array() ? *ends : json::Json::array({*ends});
  config.end_tokens.clear();
  for (const json::Json& token : list) {
    if (!token.is_number_integer())
      file.ThrowWrongType("eos_token_id", "a token or a list of them");
    config.end_tokens.push_back(static_cast<int32_t>(token.get<int64_t>()));
  }
}

/// What generation_config.json says goes before what config.json does.
void ReadTokens(const json::Object& file, EncoderDecoderConfig& config, bool& has_start) {
  if (const auto start = TokenIn(file, "decoder_start_token_id", config.vocabulary)) {
    config.start_token = *start;
    has_start = true;
  }
  if (const auto first = TokenIn(file, "forced_bos_token_id", config.vocabulary)) {
    config.forced_first = *first;
  }
  ReadEnds(file, config);
}

EncoderDecoderConfig ReadConfigOf(const Folder& folder) {
  const json::Json document = json::Parse(folder.Text("config.json").value_or(""), "config.json");
  const json::Object file(document, "config.json");
  const std::string name(file.Text("model_type").value_or(""));
  const EncoderDecoderFamily* family = FindEncoderDecoder(name);
  if (family == nullptr) {
    throw Error(ErrorCode::kUnsupported, "encoder-decoders of the family " + Quote(name) +
                                             " cannot be read; those of t5, mt5 and bart can");
  }
  if (file.Find("quantization_config") != nullptr) {
    throw Error(ErrorCode::kUnsupported, "config.json: quantized encoder-decoders cannot be read");
  }
  EncoderDecoderConfig config;
  config.family = name;
  config.names = family->names;
  config.vocabulary = SizeIn(file, "vocab_size", std::nullopt, (int64_t{1} << 31) - 1);
  config.hidden = SizeIn(file, "d_model", std::nullopt);
  family->is_t5 ? ReadT5(file, config) : ReadBart(file, config);
  bool has_start = false;
  config.end_tokens = {1};
  ReadTokens(file, config, has_start);
  if (const auto text = folder.Text("generation_config.json")) {
    const json::Json generation = json::Parse(*text, "generation_config.json");
    ReadTokens(json::Object(generation, "generation_config.json"), config, has_start);
  }
  if (!has_start) {
    throw Error(ErrorCode::kInvalidModel, "config.json: 'decoder_start_token_id' is missing");
  }
  return config;
}

}  // namespace

bool IsEncoderDecoder(const std::filesystem::path& folder) {
  return FindEncoderDecoder(huggingface::ModelTypeOf(folder)) != nullptr;
}

EncoderDecoderFiles ReadEncoderDecoder(const std::filesystem::path& path) {
  const Folder folder(path);
  EncoderDecoderFiles files;
  files.config = ReadConfigOf(folder);
  huggingface::ReadPlainTensors(folder, files.tensors);
  std::set<const ByteSource*> seen;
  for (const auto& [name, placed] : files.tensors.tensors()) {
    if (seen.insert(placed.source.get()).second) files.bytes += placed.source->size();
  }
  return files;
}

}  // namespace oort
