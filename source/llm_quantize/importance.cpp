// SPDX-License-Identifier: MIT
#include "llm_quantize/importance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/guard.h"
#include "core/problems.h"
#include "parser/gguf/gguf_checkpoint.h"
#include "parser/gguf/gguf_writer.h"

namespace oort::llm_quantize {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kGgufParts = {{
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"model.embed_tokens", "token_embd"},
    {"lm_head", "output"},
}};

std::span<const std::byte> BytesOf(std::span<const float> values) { return std::as_bytes(values); }

std::vector<float> ReadFloats(const gguf::File& file, const gguf::TensorEntry& entry) {
  if (entry.type->format != WeightFormat::kF32) {
    throw Error(ErrorCode::kInvalidModel, Quote(entry.name) + " is not f32");
  }
  std::vector<float> values(static_cast<size_t>(entry.bytes / sizeof(float)));
  file.source->ReadAt(entry.offset, std::as_writable_bytes(std::span(values)));
  return values;
}

/// The entries of a file by their names.
class ImatrixFile {
 public:
  explicit ImatrixFile(const std::filesystem::path& path)
      : file_(gguf::ReadFile(ByteSource::File(path))) {
    if (file_.metadata.Text("general.type").value_or("") != "imatrix") {
      throw Error(ErrorCode::kInvalidModel,
                  "it is a GGUF, but no imatrix: its general.type is another");
    }
    for (const gguf::TensorEntry& entry : file_.tensors) entries_[entry.name] = &entry;
  }
  /// Empty where there is none.
  ColumnImportance Find(const std::string& name, int64_t columns) const {
    const auto sums = entries_.find(name + std::string(kSums));
    const auto counts = entries_.find(name + std::string(kCounts));
    if (sums == entries_.end() || counts == entries_.end()) return {};
    ColumnImportance found;
    found.mean_squares = ReadFloats(file_, *sums->second);
    const std::vector<float> count = ReadFloats(file_, *counts->second);
    if (static_cast<int64_t>(found.mean_squares.size()) != columns || count.size() != 1) {
      throw Error(ErrorCode::kInvalidModel,
                  Quote(name) + " has " + std::to_string(found.mean_squares.size()) +
                      " columns there, but " + std::to_string(columns) + " in the model");
    }
    if (!(count[0] >= 1) || count[0] > 0x1p62F) return {};
    found.tokens = static_cast<int64_t>(count[0]);
    for (float& value : found.mean_squares) {
      value /= count[0];
      if (std::isfinite(value) && value >= 0) continue;
      throw Error(ErrorCode::kInvalidModel, Quote(name) + " has a sum of squares that is none");
    }
    return found;
  }

 private:
  gguf::File file_;
  std::map<std::string_view, const gguf::TensorEntry*> entries_;
};

}  // namespace

std::vector<float> ErrorWeights(const ColumnImportance& importance) {
  constexpr double kLeastShare = 1e-6;
  const auto& squares = importance.mean_squares;
  const double mean = std::accumulate(squares.begin(), squares.end(), 0.0) /
                      static_cast<double>(std::max<size_t>(1, squares.size()));
  std::vector<float> weights(squares.size(), 1);
  if (!(mean > 0)) return weights;
  for (size_t k = 0; k < squares.size(); ++k) {
    weights[k] = static_cast<float>(std::max(static_cast<double>(squares[k]) / mean, kLeastShare));
  }
  return weights;
}

std::string GgufNameOf(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  const size_t dot = name.rfind('.');
  std::string_view stem = std::string_view(name).substr(0, dot);
  std::string prefix;
  if (stem.starts_with(kLayers)) {
    stem.remove_prefix(kLayers.size());
    const size_t end = stem.find('.');
    prefix = "blk." + std::string(stem.substr(0, end)) + ".";
    stem.remove_prefix(end + 1);
  }
  for (const auto& [ours, theirs] : kGgufParts) {
    if (ours == stem) return prefix + std::string(theirs) + name.substr(dot);
  }
  return name;
}

void WriteImportance(const Importance& importance, std::span<const std::string> datasets,
                     int64_t window, const std::filesystem::path& path) {
  gguf::Writer writer;
  int64_t tokens = 0;
  for (const auto& [name, columns] : importance) tokens = std::max(tokens, columns.tokens);
  writer.AddText("general.type", "imatrix");
  writer.AddTexts("imatrix.datasets", datasets);
  writer.AddInteger("imatrix.chunk_count",
                    static_cast<uint32_t>(tokens / std::max<int64_t>(1, window)));
  writer.AddInteger("imatrix.chunk_size", static_cast<uint32_t>(window));
  for (const auto& [name, columns] : importance) {
    const std::string stored = GgufNameOf(name);
    const int64_t sums[] = {static_cast<int64_t>(columns.mean_squares.size()), 1};
    const int64_t one[] = {1, 1};
    writer.AddTensor(stored + std::string(kSums), sums, WeightFormat::kF32);
    writer.AddTensor(stored + std::string(kCounts), one, WeightFormat::kF32);
  }
  writer.Begin(path);
  for (const auto& [name, columns] : importance) {
    const auto count = static_cast<float>(columns.tokens);
    std::vector<float> sums = columns.mean_squares;
    for (float& sum : sums) sum *= count;
    writer.Write(BytesOf(sums));
    writer.Write(BytesOf({&count, 1}));
  }
  writer.Finish();
}

Importance ReadImportance(const std::filesystem::path& path, const DecoderConfig& config) {
  try {
    return Guarded([&] {
      const ImatrixFile file(path);
      Importance importance;
      const auto add = [&](const std::string& name, int64_t columns) {
        ColumnImportance found = file.Find(GgufNameOf(name), columns);
        if (found.tokens > 0) importance[name] = std::move(found);
      };
      for (int64_t layer = 0; layer < config.layers; ++layer) {
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
          add(prefix + "self_attn." + part + ".weight", config.hidden);
        }
        add(prefix + "self_attn.o_proj.weight", config.heads * config.head_dim);
        add(prefix + "mlp.gate_proj.weight", config.hidden);
        add(prefix + "mlp.up_proj.weight", config.hidden);
        add(prefix + "mlp.down_proj.weight", config.intermediate);
      }
      add("model.embed_tokens.weight", config.hidden);
      add("lm_head.weight", config.hidden);
      if (importance.empty()) {
        throw Error(ErrorCode::kInvalidModel, "it has no matrix of the model: is it of another?");
      }
      return importance;
    });
  } catch (const Error& error) {
    throw error.WithContext(path.filename().string() + ": ");
  }
}

}  // namespace oort::llm_quantize
