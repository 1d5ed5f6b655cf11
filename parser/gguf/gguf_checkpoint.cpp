// SPDX-License-Identifier: MIT
#include "parser/gguf/gguf_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/problems.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/latent_tensors.h"
#include "parser/checkpoint/state_space_tensors.h"
#include "parser/gguf/gguf_config.h"
#include "parser/gguf/gguf_names.h"
#include "parser/gguf/gguf_tokenizer.h"

namespace oort {
namespace gguf {
namespace {

template <size_t kCount>
std::string_view Renamed(const RenamedPart (&names)[kCount], std::string_view name) {
  for (const RenamedPart& part : names) {
    if (part.file == name) return part.ours;
  }
  return {};
}

/// Tables that older converters wrote, and what becomes part of the config.
bool IsNoWeight(std::string_view name) {
  return name == "rope_freqs.weight" || name.starts_with("rope_factors_") ||
         name.ends_with(".attn_rot_embd.weight") || name.ends_with(".attn_rot_embd") ||
         name.ends_with(".attn.rot_embd");
}

class TensorMapper {
 public:
  TensorMapper(const DecoderConfig& config, TensorTable& table) : config_(config), table_(table) {}

  void Map(const File& file) {
    for (const TensorEntry& entry : file.tensors) Map(file, entry);
  }
  void Map(const File& file, const TensorEntry& entry) {
    if (IsNoWeight(entry.name)) return;
    if (!entry.type->format) {
      problems_.Add(ErrorCode::kUnsupported, Quote(entry.name) + " is stored as " +
                                                 std::string(entry.type->name) +
                                                 ", which cannot be read");
    } else if (!Place(entry.name, PlacedOf(file, entry))) {
      problems_.Add(
          ErrorCode::kUnsupported,
          Quote(entry.name) + " has no place in a model of the family " + Quote(config_.family));
    }
  }
  void Throw(const std::string& file) const {
    problems_.Throw(file + ": there are tensors that cannot be used");
  }

 private:
  static PlacedTensor PlacedOf(const File& file, const TensorEntry& entry) {
    PlacedTensor placed;
    placed.source = file.source;
    placed.offset = entry.offset;
    placed.format = *entry.type->format;
    placed.columns = entry.dims[0];
    placed.rows = entry.dims[1] * entry.dims[2] * entry.dims[3];
    placed.rank = entry.rank <= 1 ? 1 : 2;
    return placed;
  }

  /// Whether the name is known.
  bool Place(std::string_view name, const PlacedTensor& placed) {
    // These have no ending.
    if (name.ends_with(".ssm_a") || name.ends_with(".ssm_d")) {
      return name.starts_with("blk.") && PlaceInLayer(name.substr(4), ".weight", placed);
    }
    const size_t dot = name.rfind('.');
    if (dot == name.npos) return false;
    const std::string_view stem = name.substr(0, dot);
    const std::string ending(name.substr(dot));
    if (ending != ".weight" && ending != ".bias") return false;
    if (stem.starts_with("blk.")) return PlaceInLayer(stem.substr(4), ending, placed);
    if (stem == "altup_proj") return CutStreams("model.altup_projections.", placed);
    if (stem == "altup_unembd_proj") return CutStreams("model.altup_unembed_projections.", placed);
    const std::string_view ours = Renamed(kTopNames, stem);
    if (ours.empty()) return false;
    table_.Add(std::string(ours) + ending, placed);
    return true;
  }

  /// One tensor has the matrices of all streams but the first.
  bool CutStreams(const std::string& name, const PlacedTensor& placed) {
    const int64_t count = config_.altup.streams - 1;
    if (count < 1 || placed.rank != 2 || placed.rows != count * config_.hidden) return false;
    for (int64_t i = 0; i < count; ++i) {
      table_.Add(name + std::to_string(i) + ".weight",
                 placed.Cut(i * config_.hidden, config_.hidden));
    }
    return true;
  }

  bool PlaceInLayer(std::string_view stem, const std::string& ending, const PlacedTensor& placed) {
    int64_t layer = -1;
    const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), layer);
    const auto digits = static_cast<size_t>(end - stem.data());
    if (error != std::errc() || layer < 0 || layer >= config_.layers || digits >= stem.size() ||
        stem[digits] != '.' || std::to_string(layer).size() != digits) {
      return false;
    }
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::string_view name = stem.substr(digits + 1);
    // What is one tensor in layers with attention is another in those with a delta rule.
    if (name == "attn_qkv" && config_.state_space.delta && config_.state_space.IsAt(layer)) {
      table_.Add(prefix + "mixer.conv_proj" + ending, placed);
      return true;
    }
    return PlaceNamed(prefix, name, ending, placed);
  }

  bool PlaceNamed(const std::string& prefix, std::string_view name, const std::string& ending,
                  const PlacedTensor& placed) {
    const int64_t queries = config_.heads * config_.head_dim;
    const int64_t keys = config_.kv_heads * config_.head_dim;
    const int64_t units = placed.units();
    if (name == "attn_qkv" && units == queries + 2 * keys) {
      table_.Add(prefix + "self_attn.q_proj" + ending, placed.Cut(0, queries));
      table_.Add(prefix + "self_attn.k_proj" + ending, placed.Cut(queries, keys));
      table_.Add(prefix + "self_attn.v_proj" + ending, placed.Cut(queries + keys, keys));
      return true;
    }
    if (name == "ffn_up" && config_.gated && units == 2 * config_.intermediate) {
      table_.Add(prefix + "mlp.gate_proj" + ending, placed.Cut(0, config_.intermediate));
      table_.Add(prefix + "mlp.up_proj" + ending,
                 placed.Cut(config_.intermediate, config_.intermediate));
      return true;
    }
    std::string_view ours = Renamed(kLayerNames, name);
    if (name == "ffn_norm") ours = config_.FeedForwardNorm();
    if (FamilyOf(config_).falcon_layout && config_.block == DecoderConfig::Block::kParallel) {
      // The norm that all members have is the feed-forward's here.
      if (name == "attn_norm") ours = "post_attention_layernorm";
      if (name == "attn_norm_2") ours = "input_layernorm";
    }
    if (ours.empty()) return false;
    constexpr std::string_view kAttention = "self_attn.";
    if (config_.latent.rank > 0 && ours.starts_with(kAttention) &&
        AddLatentTensor(config_, prefix + "self_attn.", ours.substr(kAttention.size()), ending,
                        placed, table_)) {
      return true;
    }
    if (config_.state_space.heads > 0 &&
        AddStateSpaceTensor(config_, prefix, ours, ending, placed, table_)) {
      return true;
    }
    if (AddGatedQuery(config_, prefix, ours, ending, placed, table_)) return true;
    PlacedTensor given = placed;
    if (name == "ffn_gate_inp_shexp") given.rank = 2;                       // a matrix of one row
    if (name.ends_with("_exps") && ending == ".bias" && given.rank == 2) {  // a row for each expert
      given.rank = 1;
      given.columns *= given.rows;
      given.rows = 1;
    }
    table_.Add(prefix + std::string(ours) + ending, given);
    return true;
  }

  const DecoderConfig& config_;
  TensorTable& table_;
  ProblemList problems_;
};

const TensorEntry* FindEntry(const std::vector<File>& files, std::string_view name,
                             const File** owner) {
  for (const File& file : files) {
    for (const TensorEntry& entry : file.tensors) {
      if (entry.name != name) continue;
      *owner = &file;
      return &entry;
    }
  }
  return nullptr;
}

/// A small f32 tensor as numbers; empty where it is not there.
std::vector<float> ReadSmall(const std::vector<File>& files, std::string_view name) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const File* file = nullptr;
  const TensorEntry* entry = FindEntry(files, name, &file);
  if (entry == nullptr) return {};
  if (entry->type->format != WeightFormat::kF32 || entry->bytes > kMostBytes) {
    throw Error(ErrorCode::kInvalidModel, Quote(name) + " should be a few numbers in f32");
  }
  std::vector<float> numbers(static_cast<size_t>(entry->bytes / sizeof(float)));
  file->source->ReadAt(entry->offset, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

/// Which norms a layer has says how its halves follow each other, where no key does.
void ReadBlock(const std::vector<File>& files, DecoderConfig& config) {
  using Block = DecoderConfig::Block;
  const Family& family = FamilyOf(config);
  const auto has = [&](std::string_view name) {
    const File* owner = nullptr;
    return FindEntry(files, name, &owner) != nullptr;
  };
  if (family.parallel_block == Block::kParallelOneNorm) {
    config.block = has("blk.0.ffn_norm.weight") ? Block::kSequential : Block::kParallelOneNorm;
  }
  if (family.falcon_layout && has("blk.0.attn_norm_2.weight")) config.block = Block::kParallel;
  if (family.hybrid_layers) config.state_space.norm = has("blk.0.ssm_norm.weight");
}

/// Whether a layer has such a tensor; the first ones may be without experts.
bool HasLayerTensor(const std::vector<File>& files, const DecoderConfig& config,
                    std::string_view name) {
  if (config.experts.count < 1 || config.layers < 1) return false;
  const File* owner = nullptr;
  const std::string last = "blk." + std::to_string(config.layers - 1) + ".";
  return FindEntry(files, last + std::string(name), &owner) != nullptr;
}

}  // namespace

CheckpointContents ReadContents(const std::vector<File>& files) {
  const Metadata& metadata = files.front().metadata;
  CheckpointContents contents;
  RotaryFactors factors;
  factors.frequencies = ReadSmall(files, "rope_freqs.weight");
  factors.long_factors = ReadSmall(files, "rope_factors_long.weight");
  factors.short_factors = ReadSmall(files, "rope_factors_short.weight");
  DecoderConfig& config = contents.config;
  config = ReadConfig(metadata, factors);
  const File* owner = nullptr;
  const TensorEntry* embeddings = FindEntry(files, "token_embd.weight", &owner);
  config.vocabulary = embeddings == nullptr ? 0 : embeddings->dims[1];
  if (config.altup.streams > 0) {
    const TensorEntry* const table = FindEntry(files, "per_layer_token_embd.weight", &owner);
    const TensorEntry* const low = FindEntry(files, "blk.0.laurel_l.weight", &owner);
    config.altup.vocabulary = table == nullptr ? 0 : table->dims[1];
    config.altup.laurel = low == nullptr ? 0 : low->dims[1];
  }
  config.tied_head = FindEntry(files, "output.weight", &owner) == nullptr;
  ReadBlock(files, config);
  config.experts.corrected = HasLayerTensor(files, config, "exp_probs_b.bias");
  FinishConfig(config);
  TensorMapper mapper(config, contents.tensors);
  for (const File& file : files) {
    mapper.Map(file);
    contents.file_bytes += file.source->size();
  }
  mapper.Throw(files.front().source->name());
  CheckTensors(config, contents.tensors, files.front().source->name());
  ReadTokenizer(metadata, contents);
  return contents;
}

std::vector<std::string> NamesOf(const DecoderConfig& config, const File& file,
                                 const TensorEntry& entry) {
  TensorTable table;
  TensorMapper(config, table).Map(file, entry);
  std::vector<std::pair<uint64_t, std::string>> placed;
  for (const auto& [name, tensor] : table.tensors()) placed.emplace_back(tensor.offset, name);
  std::ranges::sort(placed);
  std::vector<std::string> names;
  for (auto& [offset, name] : placed) names.push_back(std::move(name));
  return names;
}

}  // namespace gguf

CheckpointContents ReadGguf(const std::filesystem::path& path) {
  const std::vector<gguf::File> files = gguf::ReadFiles(path);
  try {
    return gguf::ReadContents(files);
  } catch (const Error& error) {
    if (!error.problems().empty()) throw;  // these name the file already
    throw error.WithContext(path.filename().string() + ": ");
  }
}

}  // namespace oort
