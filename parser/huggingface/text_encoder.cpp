// SPDX-License-Identifier: MIT
#include "parser/huggingface/text_encoder.h"

#include <algorithm>
#include <optional>

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

/// A family, and what config.json calls its sizes.
struct TextEncoderFamily {
  std::string_view name;
  TextEncoderNames names;
  int64_t first_position = 0;  ///< where positions begin behind the padding's
  bool padded_positions = false;
  bool modern = false;  ///< config.json is ModernBERT's
  Activation head_activation = Activation::kTanh;
  std::string_view hidden = "hidden_size", layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads", intermediate = "intermediate_size";
  std::string_view activation = "hidden_act";
};

constexpr TextEncoderNames kBertNames = {
    .body = "bert.",
    .words = "embeddings.word_embeddings",
    .positions = "embeddings.position_embeddings",
    .types = "embeddings.token_type_embeddings",
    .first_norm = "embeddings.LayerNorm",
    .layers = "encoder.layer.",
    .query = "attention.self.query",
    .key = "attention.self.key",
    .value = "attention.self.value",
    .joined = {},
    .output = "attention.output.dense",
    .attention_norm = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .feed_norm = "output.LayerNorm",
    .final_norm = {},
    .relative = {},
    .head_dense = "bert.pooler.dense",
    .head_norm = {},
    .head = "classifier",
};

constexpr TextEncoderNames RobertaNames() {
  TextEncoderNames names = kBertNames;
  names.body = "roberta.";
  names.head_dense = "classifier.dense";
  names.head = "classifier.out_proj";
  return names;
}

constexpr TextEncoderNames MpnetNames() {
  TextEncoderNames names = RobertaNames();
  names.body = "mpnet.";
  names.types = {};
  names.query = "attention.attn.q";
  names.key = "attention.attn.k";
  names.value = "attention.attn.v";
  names.output = "attention.attn.o";
  names.attention_norm = "attention.LayerNorm";
  names.relative = "encoder.relative_attention_bias";
  return names;
}

constexpr TextEncoderNames DistilBertNames() {
  TextEncoderNames names = kBertNames;
  names.body = "distilbert.";
  names.types = {};
  names.layers = "transformer.layer.";
  names.query = "attention.q_lin";
  names.key = "attention.k_lin";
  names.value = "attention.v_lin";
  names.output = "attention.out_lin";
  names.attention_norm = "sa_layer_norm";
  names.up = "ffn.lin1";
  names.down = "ffn.lin2";
  names.feed_norm = "output_layer_norm";
  names.head_dense = "pre_classifier";
  return names;
}

constexpr TextEncoderNames kModernBertNames = {
    .body = "model.",
    .words = "embeddings.tok_embeddings",
    .positions = {},
    .types = {},
    .first_norm = "embeddings.norm",
    .layers = "layers.",
    .query = {},
    .key = {},
    .value = {},
    .joined = "attn.Wqkv",
    .output = "attn.Wo",
    .attention_norm = "attn_norm",
    .up = "mlp.Wi",
    .down = "mlp.Wo",
    .feed_norm = "mlp_norm",
    .final_norm = "final_norm",
    .relative = {},
    .head_dense = "head.dense",
    .head_norm = "head.norm",
    .head = "classifier",
};

constexpr TextEncoderFamily kTextEncoders[] = {
    {.name = "bert", .names = kBertNames},
    {.name = "camembert", .names = RobertaNames(), .padded_positions = true},
    {.name = "distilbert",
     .names = DistilBertNames(),
     .head_activation = Activation::kRelu,
     .hidden = "dim",
     .layers = "n_layers",
     .heads = "n_heads",
     .intermediate = "hidden_dim",
     .activation = "activation"},
    {.name = "modernbert",
     .names = kModernBertNames,
     .modern = true,
     .activation = "hidden_activation"},
    {.name = "mpnet", .names = MpnetNames(), .first_position = 2},
    {.name = "roberta", .names = RobertaNames(), .padded_positions = true},
    {.name = "xlm-roberta", .names = RobertaNames(), .padded_positions = true},
};

const TextEncoderFamily* FindTextEncoder(std::string_view name) {
  for (const TextEncoderFamily& family : kTextEncoders) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

[[noreturn]] void Refuse(const json::Object& file, std::string_view key, const std::string& why) {
  throw Error(ErrorCode::kUnsupported,
              file.what() + ": '" + std::string(key) + "': " + why + " cannot be read");
}

double RotaryBase(const json::Object& file, std::string_view layers, std::string_view old_key,
                  double otherwise) {
  if (file.Find("rope_scaling") != nullptr) Refuse(file, "rope_scaling", "a stretched rotation");
  double base = file.Number(old_key).value_or(otherwise);
  if (const auto all = file.Member("rope_parameters")) {
    if (const auto own = all->Member(layers)) {
      if (own->Text("rope_type").value_or("default") != "default") {
        Refuse(*own, "rope_type", "a stretched rotation");
      }
      base = own->Number("rope_theta").value_or(base);
    }
  }
  if (!(base > 1 && base < 1e12)) file.ThrowWrongType(old_key, "a number above 1");
  return base;
}

void ReadModern(const json::Object& file, TextEncoderConfig& config) {
  config.epsilon = static_cast<float>(file.Number("norm_eps").value_or(1e-5));
  config.norms_first = config.gated = true;
  config.context = SizeIn(file, "max_position_embeddings", 8192, int64_t{1} << 20);
  config.rotary_base = RotaryBase(file, "full_attention", "global_rope_theta", 160000);
  config.local_rotary_base = RotaryBase(file, "sliding_attention", "local_rope_theta", 10000);
  config.window = SizeIn(file, "local_attention", 128) / 2;
  if (const json::Json* types = file.Find("layer_types")) {
    if (!types->is_array() || types->size() != static_cast<size_t>(config.layers)) {
      file.ThrowWrongType("layer_types", "a name for each layer");
    }
    for (const json::Json& type : *types) {
      if (type != "full_attention" && type != "sliding_attention") {
        file.ThrowWrongType("layer_types", "full_attention or sliding_attention of each layer");
      }
      config.local.push_back(type == "sliding_attention");
    }
  } else {
    const int64_t period = SizeIn(file, "global_attn_every_n_layers", 3);
    for (int64_t i = 0; i < config.layers; ++i) config.local.push_back(i % period != 0);
  }
  const std::string_view pooling = file.Text("classifier_pooling").value_or("cls");
  if (pooling != "cls" && pooling != "mean") {
    file.ThrowWrongType("classifier_pooling", "cls or mean");
  }
  config.head_of_mean = pooling == "mean";
  config.head_activation = ActivationOf(file, file.Text("classifier_activation").value_or("gelu"));
}

void ReadLearned(const json::Object& file, const TextEncoderFamily& family,
                 TextEncoderConfig& config) {
  config.epsilon = static_cast<float>(file.Number("layer_norm_eps").value_or(1e-12));
  config.positions = SizeIn(file, "max_position_embeddings", 512);
  config.first_position = family.first_position;
  if (family.padded_positions) {
    const int64_t pad = file.Find("pad_token_id") != nullptr
                            ? file.RequireInteger("pad_token_id", config.vocabulary - 1)
                            : 1;
    config.first_position = pad + 1;
  }
  config.context = config.positions - config.first_position;
  if (config.context < 1) {
    file.ThrowWrongType("max_position_embeddings", "more than the padding's positions");
  }
  const std::string_view positions = file.Text("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    Refuse(file, "position_embedding_type", "positions other than 'absolute'");
  }
  if (!config.names.types.empty()) config.types = SizeIn(file, "type_vocab_size", 2);
  if (file.Bool("sinusoidal_pos_embds").value_or(false)) {
    Refuse(file, "sinusoidal_pos_embds", "a table of positions that is not learned");
  }
  if (!config.names.relative.empty()) {
    // That of transformers computes with these, whatever the file says.
    config.buckets = SizeIn(file, "relative_attention_num_buckets", 32);
    config.max_distance = 128;
    if (config.buckets != 32) {
      Refuse(file, "relative_attention_num_buckets", "another number of buckets than 32");
    }
  }
}

/// Whether sentence-transformers' file says that scores are taken as they come.
bool AsksForRawScores(const json::Object& file) {
  std::optional<std::string_view> name = file.Text("sbert_ce_default_activation_function");
  if (const auto own = file.Member("sentence_transformers")) {
    if (const auto given = own->Text("activation_fn")) name = given;
  }
  if (!name || name->ends_with(".Sigmoid")) return false;
  if (name->ends_with(".Identity")) return true;
  throw Error(ErrorCode::kUnsupported, file.what() + ": scores by " + Quote(std::string(*name)) +
                                           "; Sigmoid and Identity can be computed");
}

TextEncoderConfig ReadTextEncoderConfig(const Folder& folder) {
  const json::Json document = json::Parse(folder.Text("config.json").value_or(""), "config.json");
  const json::Object file(document, "config.json");
  const std::string name(file.Text("model_type").value_or(""));
  const TextEncoderFamily* family = FindTextEncoder(name);
  if (family == nullptr) {
    throw Error(ErrorCode::kUnsupported, "encoders of the family " + Quote(name) +
                                             " cannot be read; those of " + TextEncoderFamilies() +
                                             " can");
  }
  if (file.Find("quantization_config") != nullptr) {
    Refuse(file, "quantization_config", "quantized encoders");
  }
  if (file.Bool("is_decoder").value_or(false)) Refuse(file, "is_decoder", "decoders among these");
  constexpr int64_t kMostLayers = 4096, kMostWide = int64_t{1} << 24;
  TextEncoderConfig config;
  config.family = name;
  config.names = family->names;
  config.vocabulary = SizeIn(file, "vocab_size", std::nullopt, (int64_t{1} << 31) - 1);
  config.hidden = SizeIn(file, family->hidden, std::nullopt);
  config.layers = SizeIn(file, family->layers, std::nullopt, kMostLayers);
  config.heads = SizeIn(file, family->heads, std::nullopt, 65536);
  config.intermediate = SizeIn(file, family->intermediate, std::nullopt, kMostWide);
  if (config.hidden % config.heads != 0) {
    file.ThrowWrongType(family->heads, "a number that divides the hidden size");
  }
  config.activation = ActivationOf(file, file.Text(family->activation).value_or("gelu"));
  config.head_activation = family->head_activation;
  family->modern ? ReadModern(file, config) : ReadLearned(file, *family, config);
  config.raw_scores = AsksForRawScores(file);
  return config;
}

}  // namespace

std::string TextEncoderFamilies() {
  std::string text;
  const size_t count = std::size(kTextEncoders);
  for (size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : i + 1 < count ? ", " : " and ") + std::string(kTextEncoders[i].name);
  }
  return text;
}

bool IsTextEncoder(const std::filesystem::path& folder) {
  return FindTextEncoder(huggingface::ModelTypeOf(folder)) != nullptr;
}

bool HasScoringHead(const std::filesystem::path& folder) {
  if (!IsTextEncoder(folder)) return false;
  const json::Json document =
      json::Parse(Folder(folder).Text("config.json").value_or(""), "config.json");
  const json::Json* names = json::Object(document, "config.json").Find("architectures");
  return names != nullptr && names->is_array() &&
         std::ranges::any_of(*names, [](const json::Json& name) {
           return name.is_string() &&
                  name.get_ref<const std::string&>().ends_with("ForSequenceClassification");
         });
}

TextEncoderFiles ReadTextEncoder(const std::filesystem::path& path) {
  const Folder folder(path);
  TextEncoderFiles files;
  files.config = ReadTextEncoderConfig(folder);
  // Old files have the numbers 0, 1, 2, … as a tensor.
  huggingface::ReadPlainTensors(folder, files.tensors, "embeddings.position_ids");
  return files;
}

}  // namespace oort
