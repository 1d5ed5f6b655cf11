// SPDX-License-Identifier: MIT
#include "decoder/converted.h"

#include <algorithm>
#include <cstring>

#include "core/problems.h"
#include "decoder/about.h"
#include "decoder/decoder.h"
#include "decoder/quantized_checkpoint.h"
#include "decoder/traced.h"
#include "parser/pnnx/param.h"

namespace oort {
namespace {

// Constants of the graph that nothing computes with.
constexpr std::string_view kAbout = "oort.language_model";
constexpr std::string_view kTokenizerBytes = "oort.tokenizer";
constexpr std::string_view kCharsmap = "oort.charsmap";

int AddConstant(Graph& graph, std::string_view name, const Tensor& tensor) {
  Operator op;
  op.type = "pnnx.Attribute";
  op.name = name;
  op.attributes["data"] = tensor;
  const int operand = graph.AddOperand(std::string(name));
  op.outputs = {operand};
  graph.AddOperator(std::move(op));
  return operand;
}

void AddBytes(Graph& graph, std::string_view name, std::string_view bytes) {
  if (bytes.empty()) return;
  Tensor tensor(DType::kU8, {static_cast<int64_t>(bytes.size())});
  std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  AddConstant(graph, name, tensor);
}

/// A head that is the embeddings takes them from the same constants: they are stored once.
void ShareEmbeddings(Graph& graph) {
  const int table = graph.FindOperator("model.embed_tokens"), head = graph.FindOperator("lm_head");
  if (table < 0 || head < 0) {
    throw Error(ErrorCode::kInternal, "a decoder without embeddings or head");
  }
  for (const char* name : {"weight", "scale", "minimum"}) {
    auto& attributes = graph.operators[static_cast<size_t>(table)].attributes;
    const auto at = attributes.find(name);
    if (at == attributes.end()) continue;
    const Tensor tensor = at->second;
    attributes.erase(at);
    graph.operators[static_cast<size_t>(head)].attributes.erase(name);
    const int operand = AddConstant(graph, "model.embed_tokens." + std::string(name), tensor);
    for (const int index : {table, head}) graph.AddInput(index, operand, name);
  }
}

/// Takes a constant out of the graph.
std::string TakeBytes(Graph& graph, std::string_view name, std::vector<bool>& dead) {
  const int index = graph.FindOperator(name);
  if (index < 0) return {};
  const Operator& op = graph.operators[static_cast<size_t>(index)];
  const auto at = op.attributes.find("data");
  if (op.type != "pnnx.Attribute" || at == op.attributes.end() ||
      at->second.dtype() != DType::kU8 || at->second.rank() != 1) {
    throw Error(ErrorCode::kInvalidModel,
                op.Describe() + ": bytes were expected in its attribute 'data'");
  }
  for (const int operand : op.outputs) {
    if (graph.operands[static_cast<size_t>(operand)].consumers.empty()) continue;
    throw Error(ErrorCode::kInvalidModel, op.Describe() + ": nothing may be computed with it");
  }
  dead[static_cast<size_t>(index)] = true;
  const Tensor& bytes = at->second;
  return {reinterpret_cast<const char*>(bytes.raw()), bytes.bytes()};
}

/// Files of version 0.1 have the first names of these operators.
void RenameOldTypes(Graph& graph) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"oort.CompactLinear", "oort.QuantizedLinear"},
      {"oort.CompactEmbedding", "oort.QuantizedEmbedding"},
      {"oort.CompactLikeliest", "oort.QuantizedArgmax"},
      {"oort.Likeliest", "oort.Argmax"},
      {"oort.CachedAttention", "oort.PagedAttention"}};
  for (Operator& op : graph.operators) {
    for (const auto& [old_name, name] : kNames) {
      if (op.type == old_name) op.type = name;
    }
  }
}

/// Logits are cut into rows of a vocabulary: the head must have as many.
void CheckHead(const Graph& graph, const DecoderConfig& config) {
  const int head = graph.FindOperator("lm_head");
  const auto* params = head < 0 ? nullptr : &graph.operators[static_cast<size_t>(head)].params;
  const auto rows = params == nullptr ? decltype(params->begin()){} : params->find("out_features");
  if (params == nullptr || rows == params->end() ||
      rows->second.value().AsInts() != std::vector<int64_t>{config.vocabulary}) {
    throw Error(ErrorCode::kInvalidModel, "the graph has no head for a vocabulary of " +
                                              std::to_string(config.vocabulary) + " tokens");
  }
}

/// A trace does not say how long its model's sequences may be; the cache is the limit, then.
constexpr int64_t kUnknownContext = int64_t{1} << 17;

ConvertedModel ReadTraced(const Graph& graph, const std::filesystem::path& param) {
  ConvertedModel model;
  TracedDecoder decoder;
  try {
    decoder = MakeDecoder(graph);
  } catch (const Error& error) {
    throw Error(error.code(), Quote(param.filename().string()) +
                                  " is no language model that 'oort convert' wrote, and no causal "
                                  "decoder that pnnx traced: " +
                                  error.what());
  }
  DecoderConfig& config = model.about.config;
  config.family = "traced";
  config.vocabulary = decoder.vocabulary;
  config.hidden = decoder.hidden;
  config.layers = decoder.layers;
  config.heads = decoder.heads;
  config.kv_heads = decoder.kv_heads;
  config.head_dim = decoder.head_dim;
  const auto folder = param.parent_path();
  const int64_t window = ReadCompanions(folder.empty() ? "." : folder, model.about);
  if (config.context == 0) config.context = kUnknownContext;
  if (decoder.positions > 0) config.context = std::min(config.context, decoder.positions);
  // A window that the trace was too short to show is all that may be seen.
  if (window > 0 && !decoder.has_window) config.context = std::min(config.context, window);
  model.graph = std::move(decoder.graph);
  return model;
}

}  // namespace

void WriteConverted(const Checkpoint& checkpoint, const std::filesystem::path& param,
                    const std::filesystem::path& bin, const ConvertOptions& options) {
  const auto quantized = MakeQuantized(checkpoint, options);
  Graph graph = BuildDecoder(*quantized).graph;
  if (checkpoint.config().tied_head) ShareEmbeddings(graph);
  AddDescription(graph, AboutText(checkpoint), checkpoint.tokenizer());
  WritePnnx(graph, param, bin);
}

bool LooksConverted(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const auto source = ByteSource::File(path);
  char magic[7] = {};
  if (source->size() < sizeof(magic)) return false;
  source->ReadAt(0, std::as_writable_bytes(std::span(magic)));
  return std::string_view(magic, sizeof(magic)) == pnnx::kMagic;
}

void AddDescription(Graph& graph, std::string_view about, const TokenizerSource& tokenizer) {
  AddBytes(graph, kAbout, about);
  AddBytes(graph, kTokenizerBytes, tokenizer.bytes);
  AddBytes(graph, kCharsmap, tokenizer.vocabulary.precompiled_charsmap);
}

std::optional<CheckpointContents> TakeDescription(Graph& graph) {
  std::vector<bool> dead(graph.operators.size(), false);
  const std::string about = TakeBytes(graph, kAbout, dead);
  if (about.empty()) return {};
  CheckpointContents contents = ParseAbout(about);
  contents.tokenizer.bytes = TakeBytes(graph, kTokenizerBytes, dead);
  contents.tokenizer.vocabulary.precompiled_charsmap = TakeBytes(graph, kCharsmap, dead);
  graph.Remove(dead);
  CheckHead(graph, contents.config);
  return contents;
}

ConvertedModel ReadConverted(const std::filesystem::path& param, const ReadOptions& options) {
  const std::filesystem::path bin = std::filesystem::path(param).replace_extension(".bin");
  ConvertedModel model;
  model.graph = ReadPnnx(param, bin, options);
  RenameOldTypes(model.graph);
  if (std::optional<CheckpointContents> about = TakeDescription(model.graph)) {
    model.about = std::move(*about);
  } else {
    model = ReadTraced(model.graph, param);
  }
  std::error_code ignored;
  model.about.file_bytes = std::filesystem::file_size(bin, ignored);
  return model;
}

}  // namespace oort
