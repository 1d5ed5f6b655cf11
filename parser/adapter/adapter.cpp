// SPDX-License-Identifier: MIT
#include "parser/adapter/adapter.h"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/problems.h"
#include "parser/gguf/gguf.h"
#include "parser/huggingface/folder.h"
#include "parser/safetensors/safetensors.h"
#include "text/json.h"

namespace oort {
namespace {

constexpr std::string_view kConfig = "adapter_config.json";
constexpr std::string_view kWeights = "adapter_model.safetensors";
constexpr int64_t kMostRank = 4096;

/// Both halves of one weight, before the scale is known.
struct Halves {
  Tensor down, up;
};
using HalvesByName = std::map<std::string, Halves, std::less<>>;

[[noreturn]] void Refuse(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, "the adapter " + what);
}

Tensor ReadFloats(const ByteSource& source, uint64_t offset, uint64_t bytes,
                  const std::optional<WeightFormat>& format, int64_t rows, int64_t columns,
                  const std::string& name) {
  const auto dtype = [&]() -> std::optional<DType> {
    if (format == WeightFormat::kF32) return DType::kF32;
    if (format == WeightFormat::kF16) return DType::kF16;
    if (format == WeightFormat::kBf16) return DType::kBF16;
    return {};
  }();
  if (!dtype) Refuse("has " + Quote(name) + " in another type than f32, f16 and bf16");
  // A copy, which is aligned whatever the file is. The readers have held the shape against the
  // bytes that are there.
  Tensor stored(*dtype, Shape{rows, columns});
  if (stored.bytes() != bytes) {
    throw Error(ErrorCode::kInvalidModel, "the size of " + Quote(name) + " contradicts its shape");
  }
  source.ReadAt(offset, {stored.raw(), stored.bytes()});
  return stored.To(DType::kF32);
}

/// Checks that both halves are there and fit, and puts the scale into one.
LoraAdapter Scaled(HalvesByName halves, double alpha, bool root) {
  if (!std::isfinite(static_cast<float>(alpha))) {
    throw Error(ErrorCode::kInvalidModel, "the adapter's alpha is no finite number");
  }
  LoraAdapter adapter;
  for (auto& [name, half] : halves) {
    if (!half.down.defined() || !half.up.defined()) {
      throw Error(ErrorCode::kInvalidModel,
                  "the adapter has one of two matrices for " + Quote(name));
    }
    const int64_t rank = half.down.dim(0);
    if (rank < 1 || half.up.dim(1) != rank) {
      throw Error(ErrorCode::kInvalidModel, "the matrices for " + Quote(name) +
                                                " have the shapes " + half.down.shape().ToString() +
                                                " and " + half.up.shape().ToString() +
                                                ", which have no rank in common");
    }
    // A rank as large as the weight says that these are no matrices of low rank at all; what the
    // others want grows with it.
    if (rank > kMostRank) {
      Refuse("has the rank " + std::to_string(rank) + " for " + Quote(name) + ": at most " +
             std::to_string(kMostRank) + " is available");
    }
    const auto size = static_cast<double>(rank);
    const auto scale = static_cast<float>(alpha / (root ? std::sqrt(size) : size));
    for (int64_t i = 0; i < half.up.elements(); ++i) half.up.data<float>()[i] *= scale;
    adapter.weights.emplace(name, LoraMatrices{std::move(half.down), std::move(half.up)});
  }
  if (adapter.weights.empty()) {
    throw Error(ErrorCode::kInvalidModel, "the adapter changes no weight");
  }
  return adapter;
}

bool IsSet(const json::Object& config, std::string_view key) {
  const json::Json* value = config.Find(key);
  if (value == nullptr) return false;
  return value->is_boolean() ? value->get<bool>() : !value->empty();
}

/// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
void AddPeftTensor(HalvesByName& halves, const std::string& name, Tensor tensor) {
  constexpr std::string_view kPrefix = "base_model.model.", kDown = ".lora_A.weight",
                             kUp = ".lora_B.weight";
  const bool down = name.ends_with(kDown);
  if (!name.starts_with(kPrefix) || (!down && !name.ends_with(kUp))) {
    Refuse("has " + Quote(name) + ", which is no LoRA matrix of a linear layer");
  }
  const size_t length = name.size() - kPrefix.size() - (down ? kDown : kUp).size();
  Halves& half = halves[name.substr(kPrefix.size(), length)];
  (down ? half.down : half.up) = std::move(tensor);
}

/// Without a pattern of ranks all matrices must have the one that the config names: else they are
/// of another adapter.
void CheckRanks(const json::Object& config, const LoraAdapter& adapter) {
  const auto rank = config.Integer("r");
  if (!rank || IsSet(config, "rank_pattern")) return;
  for (const auto& [name, matrices] : adapter.weights) {
    if (matrices.down.dim(0) == *rank) continue;
    throw Error(ErrorCode::kInvalidModel,
                std::string(kConfig) + " says the rank " + std::to_string(*rank) + ", " +
                    Quote(name) + " has the rank " + std::to_string(matrices.down.dim(0)));
  }
}

/// "model.layers.3.mlp.up_proj" of "blk.3.ffn_up".
std::string NameOfGguf(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kNames = {{
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
  }};
  constexpr std::string_view kBlock = "blk.";
  const size_t dot = name.find('.', kBlock.size());
  if (name.starts_with(kBlock) && dot != std::string_view::npos) {
    for (const auto& [theirs, ours] : kNames) {
      if (name.substr(dot + 1) != theirs) continue;
      return "model.layers." + std::string(name.substr(kBlock.size(), dot - kBlock.size())) + "." +
             std::string(ours);
    }
  }
  Refuse("changes " + Quote(name) + ", which is not available");
}

}  // namespace

LoraAdapter ReadPeftAdapter(std::string_view text, const ByteSource& weights) {
  const json::Json parsed = json::Parse(text, std::string(kConfig));
  const json::Object config(parsed, std::string(kConfig));
  if (const auto type = config.Text("peft_type").value_or("LORA"); type != "LORA") {
    Refuse("is of the type " + Quote(type) + ", not LORA");
  }
  for (const char* key : {"use_dora", "fan_in_fan_out", "modules_to_save", "alpha_pattern",
                          "layer_replication", "trainable_token_indices", "target_parameters"}) {
    if (IsSet(config, key)) Refuse("has " + Quote(key) + ", which is not available");
  }
  if (config.Text("bias").value_or("none") != "none") Refuse("has biases, which are not available");
  const auto alpha = config.Number("lora_alpha");
  if (!alpha) throw Error(ErrorCode::kInvalidModel, std::string(kConfig) + " has no lora_alpha");
  const bool root = config.Bool("use_rslora").value_or(false);
  HalvesByName halves;
  for (const safetensors::Entry& entry : safetensors::ReadHeader(weights)) {
    if (entry.shape.size() != 2) Refuse("has " + Quote(entry.name) + ", which is no matrix");
    AddPeftTensor(halves, entry.name,
                  ReadFloats(weights, entry.offset, entry.bytes, entry.format, entry.shape[0],
                             entry.shape[1], entry.name));
  }
  LoraAdapter adapter = Scaled(std::move(halves), *alpha, root);
  CheckRanks(config, adapter);
  return adapter;
}

LoraAdapter ReadGgufAdapter(std::shared_ptr<const ByteSource> source) {
  const gguf::File file = gguf::ReadFile(std::move(source));
  if (file.metadata.Text("general.type").value_or("") != "adapter" ||
      file.metadata.Text("adapter.type").value_or("") != "lora") {
    throw Error(ErrorCode::kInvalidModel, "this GGUF is a model, not a LoRA adapter");
  }
  const auto alpha = file.metadata.Number("adapter.lora.alpha");
  if (!alpha) throw Error(ErrorCode::kInvalidModel, "the adapter has no adapter.lora.alpha");
  constexpr std::string_view kDown = ".weight.lora_a", kUp = ".weight.lora_b";
  HalvesByName halves;
  for (const gguf::TensorEntry& entry : file.tensors) {
    const bool down = entry.name.ends_with(kDown);
    if (entry.rank != 2 || (!down && !entry.name.ends_with(kUp))) {
      Refuse("has " + Quote(entry.name) + ", which is no LoRA matrix of a linear layer");
    }
    const std::string name =
        NameOfGguf(std::string_view(entry.name).substr(0, entry.name.size() - kDown.size()));
    Tensor tensor = ReadFloats(*file.source, entry.offset, entry.bytes, entry.type->format,
                               entry.dims[1], entry.dims[0], entry.name);
    Halves& half = halves[name];
    (down ? half.down : half.up) = std::move(tensor);
  }
  LoraAdapter adapter = Scaled(std::move(halves), *alpha, false);
  adapter.is_gguf = true;
  return adapter;
}

LoraAdapter ReadAdapter(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return ReadGgufAdapter(ByteSource::File(path));
  const huggingface::Folder folder(path);
  const auto config = folder.Text(kConfig);
  if (!config || !folder.Has(kWeights)) {
    throw Error(ErrorCode::kNotFound,
                "the adapter's folder has no " + std::string(config ? kWeights : kConfig));
  }
  return ReadPeftAdapter(*config, *folder.Open(kWeights));
}

}  // namespace oort
