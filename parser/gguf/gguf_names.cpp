// SPDX-License-Identifier: MIT
#include "parser/gguf/gguf_names.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/problems.h"
#include "oort/error.h"

namespace oort::gguf {
namespace {

constexpr WrittenFamily kWrittenFamilies[] = {
    {.name = "gemma", .architecture = "gemma"},
    {.name = "gemma2", .architecture = "gemma2"},
    {.name = "gpt2", .architecture = "gpt2", .has_fused_qkv = true},
    {.name = "llama", .architecture = "llama", .is_interleaved = true},
    {.name = "mistral", .architecture = "llama", .is_interleaved = true},
    {.name = "qwen2", .architecture = "qwen2"},
    {.name = "qwen3", .architecture = "qwen3"},
};

class NewTensorList {
 public:
  NewTensorList(const DecoderConfig& config, const std::function<bool(const std::string&)>& has)
      : config_(config), family_(RequireWrittenFamily(config)), has_(has) {}

  std::vector<NewTensor> Take() {
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      AddLayer(layer, ".weight");
      AddLayer(layer, ".bias");
    }
    for (const char* ending : {".weight", ".bias"}) {
      for (const RenamedPart& part : kTopNames) {
        Add({std::string(part.file) + ending, {std::string(part.ours) + ending}});
      }
    }
    return std::move(list_);
  }

 private:
  void Add(NewTensor tensor) {
    for (const std::string& name : tensor.ours) {
      if (!has_(name)) return;
    }
    list_.push_back(std::move(tensor));
  }

  void AddLayer(int64_t layer, const std::string& ending) {
    const std::string file = "blk." + std::to_string(layer) + ".";
    const std::string ours = "model.layers." + std::to_string(layer) + ".";
    const auto named = [&](std::string_view part) { return ours + std::string(part) + ending; };
    if (family_.has_fused_qkv) {
      Add({file + "attn_qkv" + ending,
           {named("self_attn.q_proj"), named("self_attn.k_proj"), named("self_attn.v_proj")},
           layer});
    }
    Add({file + "ffn_norm" + ending, {named(config_.FeedForwardNorm())}, layer});
    for (const RenamedPart& part : kLayerNames) {
      if (IsElsewhere(part.file)) continue;
      Add({file + std::string(part.file) + ending, {named(part.ours)}, layer, HeadsOf(part.file)});
    }
  }

  /// Whether the tensor is a part of another, or has another name in this family.
  bool IsElsewhere(std::string_view name) const {
    if (name == "attn_q" || name == "attn_k" || name == "attn_v") return family_.has_fused_qkv;
    return name == "post_attention_norm" && !config_.post_norms;
  }
  int64_t HeadsOf(std::string_view name) const {
    if (!family_.is_interleaved) return 0;
    if (name == "attn_q") return config_.heads;
    return name == "attn_k" ? config_.kv_heads : 0;
  }

  const DecoderConfig& config_;
  const WrittenFamily& family_;
  const std::function<bool(const std::string&)>& has_;
  std::vector<NewTensor> list_;
};

}  // namespace

const WrittenFamily* FindWrittenFamily(std::string_view name) {
  const auto* found = std::ranges::find(kWrittenFamilies, name, &WrittenFamily::name);
  return found == std::end(kWrittenFamilies) ? nullptr : found;
}

const WrittenFamily& RequireWrittenFamily(const DecoderConfig& config) {
  if (const WrittenFamily* family = FindWrittenFamily(config.family)) return *family;
  std::string names;
  for (const WrittenFamily& family : kWrittenFamilies) {
    const bool last = &family == std::end(kWrittenFamilies) - 1;
    names += (names.empty() ? "" : last ? " and " : ", ") + std::string(family.name);
  }
  throw Error(ErrorCode::kUnsupported,
              "folders of the family " + Quote(config.family) +
                  " cannot become a .gguf, only those of " + names +
                  " can; write a .pnnx.param, or start from a GGUF of the model");
}

std::vector<NewTensor> NewTensorsOf(const DecoderConfig& config,
                                    const std::function<bool(const std::string&)>& has) {
  return NewTensorList(config, has).Take();
}

}  // namespace oort::gguf
