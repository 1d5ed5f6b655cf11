// SPDX-License-Identifier: MIT
#include "parser/huggingface/tensors.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/latent_tensors.h"
#include "parser/checkpoint/row_parts.h"
#include "parser/checkpoint/state_space_tensors.h"
#include "parser/huggingface/packed_weights.h"
#include "parser/huggingface/vision.h"
#include "parser/safetensors/safetensors.h"
#include "text/json.h"

namespace oort::huggingface {
namespace {

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

bool NamesWhole(const RenamedTensor& entry) {
  return entry.ours.ends_with(".weight") || entry.ours.ends_with(".bias");
}

/// What a family calls a tensor, as llama does.
std::string LlamaName(const Family& family, const std::string& stem) {
  for (const RenamedTensor& entry : family.hub_names) {
    if (!NamesWhole(entry) && entry.file == stem) return std::string(entry.ours);
  }
  return stem;
}

/// A name taken apart: "layers.3.mlp.up_proj.weight" is layer 3, "mlp.up_proj" and ".weight".
struct NameParts {
  std::optional<int64_t> layer;
  std::string stem, ending;
};

std::optional<NameParts> TakeApart(std::string_view name, std::string_view layers) {
  NameParts parts;
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  parts.ending = name.substr(dot);
  std::string_view stem = name.substr(0, dot);
  if (stem.starts_with(layers)) {
    stem.remove_prefix(layers.size());
    int64_t layer = -1;
    const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), layer);
    const auto digits = static_cast<size_t>(end - stem.data());
    if (error != std::errc() || layer < 0 || digits >= stem.size() || stem[digits] != '.' ||
        std::to_string(layer).size() != digits) {
      return std::nullopt;
    }
    parts.layer = layer;
    stem.remove_prefix(digits + 1);
  }
  parts.stem = stem;
  return parts;
}

/// As llama names it.
void Rename(const Family& family, NameParts& parts) {
  const std::string whole = parts.stem + parts.ending;
  for (const RenamedTensor& entry : family.hub_names) {
    if (!NamesWhole(entry) || entry.file != whole) continue;
    const size_t dot = entry.ours.rfind('.');
    parts.stem = entry.ours.substr(0, dot);
    parts.ending = entry.ours.substr(dot);
    return;
  }
  parts.stem = LlamaName(family, parts.stem);
}

/// Buffers that old files saved with the weights.
bool IsBuffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

class HubMapper {
 public:
  HubMapper(CheckpointContents& contents, const Quantization& quantization)
      : config_(contents.config),
        table_(contents.tensors),
        vision_(contents.vision.get()),
        packed_(quantization) {}

  void Map(const std::shared_ptr<const ByteSource>& source, const safetensors::Entry& entry) {
    if (IsBuffer(entry.name) || IsSkipped(entry.name)) return;
    if (packed_.Take(source, entry)) return;
    if (!entry.format) {
      problems_.Add(ErrorCode::kUnsupported, Quote(entry.name) + " is stored as " + entry.dtype +
                                                 "; F32, F16 and BF16 can be read");
      return;
    }
    PlacedTensor placed;
    placed.source = source;
    placed.offset = entry.offset;
    placed.format = *entry.format;
    placed.rank = static_cast<int>(entry.shape.size());
    if (vision_ != nullptr && IsOfVision(entry.name)) return PlaceVision(entry, std::move(placed));
    const bool fused = placed.rank == 3 && HasFusedExperts();
    // A convolution of each channel by itself: (channels, 1, taps).
    const bool taps = placed.rank == 3 && config_.state_space.heads > 0 && entry.shape[1] == 1;
    const bool shaped = placed.rank == 1 || placed.rank == 2 || fused || taps;
    if (shaped) placed.columns = entry.shape.back();
    if (placed.rank >= 2) placed.rows = entry.shape.front();
    if (taps) placed.rank = 2;
    if (fused) {
      placed.rank = 2;
      placed.rows *= entry.shape[1];  // in a file of that size this does not overflow
    }
    if (shaped && Place(entry.name, std::move(placed))) return;
    problems_.Add(
        ErrorCode::kUnsupported,
        Quote(entry.name) + " has no place in a model of the family " + Quote(config_.family));
  }
  /// When all files are read.
  void Finish(const std::string& folder) {
    for (const auto& [name, parts] : packed_.matrices()) {
      try {
        // Those of gpt2 would have to be turned first.
        const bool can_place = !FamilyOf(config_).gpt2_layout;
        if (can_place && Place(name + ".weight", packed_.Place(name))) continue;
        problems_.Add(
            ErrorCode::kUnsupported,
            Quote(name) + " has no place in a model of the family " + Quote(config_.family));
      } catch (const Error& error) {
        problems_.Add(error.code(), error.what());
      }
    }
    StackExperts();
    problems_.Throw(folder + ": there are tensors that cannot be used");
  }

 private:
  bool IsSkipped(std::string_view name) const {
    return std::ranges::any_of(FamilyOf(config_).hub_skipped,
                               [&](std::string_view begin) { return name.starts_with(begin); });
  }

  bool HasFusedExperts() const {
    return FamilyOf(config_).fused_experts != Family::FusedExperts::kNone;
  }

  /// A convolution's weight is a matrix with a row for each output.
  void PlaceVision(const safetensors::Entry& entry, PlacedTensor placed) {
    if (placed.rank != 1 && placed.rank != 2 && placed.rank != 4) {
      problems_.Add(ErrorCode::kUnsupported, Quote(entry.name) +
                                                 " is no vector, no matrix, and no "
                                                 "weight of a convolution");
      return;
    }
    placed.columns = 1;
    const size_t first = placed.rank == 1 ? 0 : 1;
    for (size_t i = first; i < entry.shape.size(); ++i) placed.columns *= entry.shape[i];
    if (placed.rank == 1) {
      vision_->tensors.Add(entry.name, std::move(placed));
      return;
    }
    placed.rank = 2;
    placed.rows = entry.shape[0];
    vision_->tensors.Add(entry.name, std::move(placed));
  }

  bool Place(std::string_view name, PlacedTensor placed) {
    const Family& family = FamilyOf(config_);
    if (name.starts_with(family.hub_prefix)) name.remove_prefix(family.hub_prefix.size());
    auto parts = TakeApart(name, family.hub_layers);
    if (!parts) return false;
    if (parts->layer && *parts->layer >= config_.layers) {
      return family.deepseek_layout;  // these predict tokens further ahead, and are not used
    }
    Rename(family, *parts);
    const std::string ours =
        parts->layer ? "model.layers." + std::to_string(*parts->layer) + "." : "";
    const bool of_mixer = parts->stem.starts_with("mixer.");
    if (family.offset_norms && parts->stem.ends_with("norm") && !of_mixer) placed.added = 1;
    if (parts->layer) return PlaceInLayer(*parts, ours, placed);
    const bool is_top = parts->stem == "embed_tokens" || parts->stem == "norm" ||
                        (config_.learned_positions && parts->stem == "embed_positions");
    // CheckTensors knows what else belongs there.
    const bool is_other = family.altup && parts->stem != "lm_head";
    if (!is_top && !is_other && parts->stem != "lm_head") return false;
    table_.Add((is_top || is_other ? "model." : "") + parts->stem + parts->ending,
               std::move(placed));
    return true;
  }

  bool PlaceInLayer(const NameParts& parts, const std::string& ours, PlacedTensor placed) {
    if (FamilyOf(config_).gpt2_layout && placed.rank == 2) {  // it multiplies from the other side
      placed.transposed_stride = placed.columns;
      std::swap(placed.rows, placed.columns);
    }
    if (config_.experts.count > 0 && IsOfExpert(parts.stem)) {
      const bool fused = HasFusedExperts() && PlaceFusedExperts(parts, ours, placed);
      return fused || PlaceExpert(parts, ours, placed);  // some files have them one by one
    }
    constexpr std::string_view kAttention = "self_attn.";
    if (config_.latent.rank > 0 && parts.stem.starts_with(kAttention) &&
        AddLatentTensor(config_, ours + "self_attn.", parts.stem.substr(kAttention.size()),
                        parts.ending, placed, table_)) {
      return true;
    }
    if (config_.state_space.heads > 0 &&
        AddStateSpaceTensor(config_, ours, parts.stem, parts.ending, placed, table_)) {
      return true;
    }
    if (AddGatedQuery(config_, ours, parts.stem, parts.ending, placed, table_)) return true;
    if (parts.stem == "self_attn.qkv_proj") return CutQkv(ours, parts.ending, placed);
    // Without other experts the shared one is a feed-forward like any other.
    constexpr std::string_view kShared = "mlp.shared_expert.";
    std::string stem = parts.stem;
    const bool alone = config_.experts.count == 0 && stem.starts_with(kShared);
    if (alone) stem = "mlp." + stem.substr(kShared.size());
    if (stem.starts_with("mlp.") && stem.ends_with(".gate_up_proj")) {
      const bool is_shared = stem.starts_with(kShared);
      const int64_t rows = is_shared ? config_.experts.shared_intermediate : config_.intermediate;
      const std::string name = ours + (is_shared ? std::string(kShared) : "mlp.");
      table_.Add(name + "gate_proj" + parts.ending, placed.Cut(0, rows));
      table_.Add(name + "up_proj" + parts.ending, placed.Cut(rows, rows));
      return placed.units() == 2 * rows;
    }
    table_.Add(ours + stem + parts.ending, placed);  // CheckTensors knows what belongs there
    return true;
  }

  static constexpr std::string_view kExperts[] = {"mlp.experts.", "block_sparse_moe.experts."};

  static bool IsOfExpert(std::string_view stem) {
    return stem.starts_with(kExperts[0]) || stem.starts_with(kExperts[1]);
  }

  /// "mlp.experts.3.up_proj" waits for those of the other experts.
  bool PlaceExpert(const NameParts& parts, const std::string& ours, const PlacedTensor& placed) {
    std::string_view rest = parts.stem;
    for (const std::string_view begin : kExperts) {
      if (rest.starts_with(begin)) rest.remove_prefix(begin.size());
    }
    int64_t expert = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), expert);
    const auto digits = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || expert < 0 || expert >= config_.experts.count ||
        digits >= rest.size() || rest[digits] != '.' || placed.rank != 2 ||
        parts.ending != ".weight") {
      return false;
    }
    const std::string stem = LlamaName(FamilyOf(config_), std::string(rest.substr(digits + 1)));
    return experts_[ours + "mlp.experts." + stem + parts.ending].emplace(expert, placed).second;
  }

  /// "mlp.experts.gate_up_proj" of all experts: packed, outputs are rows; else inputs are, unless
  /// the family has it otherwise.
  bool PlaceFusedExperts(const NameParts& parts, const std::string& ours, PlacedTensor placed) {
    const ExpertsConfig& experts = config_.experts;
    const bool is_gate_up = parts.stem == "mlp.experts.gate_up_proj";
    if (!is_gate_up && parts.stem != "mlp.experts.down_proj") return false;
    const int64_t inputs = is_gate_up ? config_.hidden : experts.intermediate;
    const int64_t outputs = is_gate_up ? 2 * experts.intermediate : config_.hidden;
    using Fused = Family::FusedExperts;
    const Fused fused = FamilyOf(config_).fused_experts;
    const bool turned =
        parts.ending == ".weight" && placed.packed == nullptr && fused != Fused::kRows;
    const int64_t rows = experts.count * (turned ? inputs : outputs);
    if (parts.ending == ".bias") {
      if (placed.rank != 2 || placed.rows != experts.count || placed.columns != outputs)
        return false;
      placed.rank = 1;
      placed.columns = rows;
      placed.rows = 1;
    } else if (placed.rows != rows || placed.columns != (turned ? outputs : inputs)) {
      return false;
    }
    if (turned) placed = TurnedParts(placed, inputs);
    const std::string name = ours + "mlp.experts.";
    if (!is_gate_up) {
      table_.Add(name + "down_proj" + parts.ending, placed);
      return true;
    }
    const int64_t run = fused == Fused::kAlternating ? 1 : experts.intermediate;
    table_.Add(name + "gate_proj" + parts.ending, EveryRun(placed, 0, run, 2 * run));
    table_.Add(name + "up_proj" + parts.ending, EveryRun(placed, run, run, 2 * run));
    return true;
  }

  /// Experts of one layer are one matrix.
  void StackExperts() {
    for (auto& [name, parts] : experts_) {
      if (static_cast<int64_t>(parts.size()) != config_.experts.count) {
        problems_.Add(ErrorCode::kInvalidModel,
                      Quote(name) + " is there for " + std::to_string(parts.size()) + " of " +
                          std::to_string(config_.experts.count) + " experts");
        continue;
      }
      std::vector<PlacedTensor> rows;
      for (auto& [expert, placed] : parts) rows.push_back(std::move(placed));
      table_.Add(name, Stacked(std::move(rows)));
    }
  }

  bool CutQkv(const std::string& ours, const std::string& ending, const PlacedTensor& placed) {
    const int64_t queries = config_.heads * config_.head_dim;
    const int64_t keys = config_.kv_heads * config_.head_dim;
    if (placed.units() != queries + 2 * keys) return false;
    if (FamilyOf(config_).grouped_qkv) return CutGroups(ours, ending, placed);
    table_.Add(ours + "self_attn.q_proj" + ending, placed.Cut(0, queries));
    table_.Add(ours + "self_attn.k_proj" + ending, placed.Cut(queries, keys));
    table_.Add(ours + "self_attn.v_proj" + ending, placed.Cut(queries + keys, keys));
    return true;
  }

  /// Of each head of keys: its queries, the key, the value.
  bool CutGroups(const std::string& ours, const std::string& ending, const PlacedTensor& placed) {
    const int64_t queries = config_.heads / config_.kv_heads * config_.head_dim;
    const int64_t keys = config_.head_dim, stride = queries + 2 * keys;
    table_.Add(ours + "self_attn.q_proj" + ending, EveryRun(placed, 0, queries, stride));
    table_.Add(ours + "self_attn.k_proj" + ending, EveryRun(placed, queries, keys, stride));
    table_.Add(ours + "self_attn.v_proj" + ending, EveryRun(placed, queries + keys, keys, stride));
    return true;
  }

  const DecoderConfig& config_;
  TensorTable& table_;
  VisionFiles* vision_;  ///< null where the model reads no pictures
  PackedWeights packed_;
  /// Of each matrix that experts have, those that were found.
  std::map<std::string, std::map<int64_t, PlacedTensor>> experts_;
  ProblemList problems_;
};

bool IsSame(const PlacedTensor& a, const PlacedTensor& b) {
  if (a.packed != nullptr || b.packed != nullptr) return false;
  if (a.format != b.format || a.rows != b.rows || a.columns != b.columns) return false;
  constexpr uint64_t kPart = 1 << 20;
  const auto bytes = static_cast<uint64_t>(a.rows * RowBytes(a.format, a.columns));
  std::vector<std::byte> parts[2];
  for (uint64_t at = 0; at < bytes; at += kPart) {
    for (const auto& [tensor, part] : {std::pair{&a, &parts[0]}, std::pair{&b, &parts[1]}}) {
      part->resize(static_cast<size_t>(std::min(kPart, bytes - at)));
      tensor->source->ReadAt(tensor->offset + at, *part);
    }
    if (parts[0] != parts[1]) return false;
  }
  return true;
}

/// A head that the config ties to the embeddings, but the file has, is the same once more, or the
/// config is wrong.
void SettleHead(CheckpointContents& contents) {
  const PlacedTensor* head = contents.tensors.Find("lm_head.weight");
  const PlacedTensor* embeddings = contents.tensors.Find("model.embed_tokens.weight");
  if (!contents.config.tied_head || head == nullptr || embeddings == nullptr) return;
  if (IsSame(*head, *embeddings)) {
    contents.tensors.Remove("lm_head.weight");
  } else {
    contents.config.tied_head = false;
  }
}

/// Which tensors the files of an index hold.
std::map<std::string, std::set<std::string>> ReadIndex(const Folder& folder) {
  const json::Json index = json::Parse(*folder.Text(kIndex), std::string(kIndex));
  const json::Object object(index, std::string(kIndex));
  const json::Json* map = object.Find("weight_map");
  if (map == nullptr || !map->is_object()) object.ThrowWrongType("weight_map", "an object");
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) object.ThrowWrongType("weight_map", "names of files for all tensors");
    files[file.get<std::string>()].insert(name);
  }
  return files;
}

void ReadSharded(const Folder& folder, const Quantization& quantization,
                 CheckpointContents& contents) {
  HubMapper mapper(contents, quantization);
  for (auto& [file, names] : ReadIndex(folder)) {
    const auto source = folder.Open(file);
    contents.file_bytes += source->size();
    for (const safetensors::Entry& entry : safetensors::ReadHeader(*source)) {
      if (names.erase(entry.name) != 0) mapper.Map(source, entry);
    }
    if (!names.empty()) {
      throw Error(ErrorCode::kInvalidModel, std::string(kIndex) + ": the tensor " +
                                                Quote(*names.begin()) + " should be in " +
                                                Quote(file) + ", but is not");
    }
  }
  mapper.Finish(folder.path().string());
  SettleHead(contents);
}

}  // namespace

void ReadSingle(const std::shared_ptr<const ByteSource>& source, CheckpointContents& contents,
                const Quantization& quantization) {
  HubMapper mapper(contents, quantization);
  contents.file_bytes = source->size();
  for (const safetensors::Entry& entry : safetensors::ReadHeader(*source)) {
    mapper.Map(source, entry);
  }
  mapper.Finish(source->name());
  SettleHead(contents);
}

namespace {

/// Of the names of the llama layout.
bool Has(const Biases& biases, std::string_view name) {
  const auto is_of = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (is_of(".self_attn.o_proj.")) return biases.attention_output;
  if (is_of(".self_attn.")) return biases.attention_inputs;
  if (is_of(".mixer.") && is_of("_proj.")) return biases.mixer;
  if (is_of(".mlp.gate_correction.")) return true;
  if (is_of(".mlp.")) return biases.mlp;
  return biases.head || !name.starts_with("lm_head.");
}

}  // namespace

void CheckBiases(const Biases& biases, const TensorTable& table, const std::string& folder) {
  ProblemList problems;
  for (const auto& [name, placed] : table.tensors()) {
    if (!name.ends_with(".bias") || Has(biases, name)) continue;
    problems.Add(ErrorCode::kUnsupported,
                 Quote(name) + " has no place in the model that config.json describes");
  }
  problems.Throw(folder + ": there are tensors that cannot be used");
}

void ReadTensors(const Folder& folder, const Quantization& quantization,
                 CheckpointContents& contents) {
  if (folder.Has(kSingle)) return ReadSingle(folder.Open(kSingle), contents, quantization);
  if (folder.Has(kIndex)) return ReadSharded(folder, quantization, contents);
  throw Error(ErrorCode::kNotFound, Quote(folder.path().string()) + " has neither " +
                                        std::string(kSingle) + " nor " + std::string(kIndex) +
                                        " (weights in pytorch_model.bin cannot be read)");
}

}  // namespace oort::huggingface
