// SPDX-License-Identifier: MIT
#include "llm/text_encoder.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "decoder/relative_position.h"
#include "decoder/text_encoder.h"
#include "oort/error.h"
#include "oort/runtime_graph.h"
#include "oort/source.h"
#include "parser/huggingface/folder.h"
#include "text/json.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDefaultTokens = 512;
constexpr size_t kMostRows = 64;
// Lengths that texts are padded to: each is a plan of its own, and the graph keeps 64.
constexpr size_t kLengthStep = 8;
// Added to scores of what is not seen. Finite, so that a row of padding, which may see nothing at
// all, is no NaN that would spoil others.
constexpr float kNotSeen = -1e30F;

json::Json ReadFolderJson(const fs::path& folder, const std::string& name) {
  const std::string path = (folder / name).string();
  std::error_code ignored;
  if (!fs::exists(folder / name, ignored)) {
    throw Error(ErrorCode::kNotFound, "there is no file " + path);
  }
  return json::Parse(huggingface::Folder(folder).Text(name).value_or(""), path);
}

/// What tokenizer_config.json says of the length of a text, which may be an absurdly large number.
int64_t TokenizerLength(const fs::path& folder, int64_t most) {
  if (!fs::exists(folder / "tokenizer_config.json")) return most;
  const json::Json file = ReadFolderJson(folder, "tokenizer_config.json");
  const json::Object config(file, (folder / "tokenizer_config.json").string());
  const double length = config.Number("model_max_length").value_or(static_cast<double>(most));
  return length >= 1 && length < static_cast<double>(most) ? static_cast<int64_t>(length) : most;
}

/// A matrix of ids, mask or types as a graph wants it.
Tensor TokenMatrix(const Port& port, const std::vector<int64_t>& values, Shape shape) {
  if (port.dtype == DType::kI32) {
    const std::vector<int32_t> narrow(values.begin(), values.end());
    return Tensor::From(std::span<const int32_t>(narrow), std::move(shape));
  }
  if (port.dtype == DType::kF32) {
    const std::vector<float> real(values.begin(), values.end());
    return Tensor::From(std::span<const float>(real), std::move(shape));
  }
  return Tensor::From(std::span<const int64_t>(values), std::move(shape));
}

}  // namespace

/// What a batch has in each row and column.
struct TextEncoder::Columns {
  size_t rows = 0, length = 0;
  std::vector<int64_t> ids, mask, types;
  std::vector<size_t> lengths;

  Columns(const TextBatch& batch, std::span<const std::vector<int32_t>> texts,
          std::span<const std::vector<int32_t>> kinds)
      : rows(batch.texts.size()), length(batch.length) {
    ids.assign(rows * length, 0);
    mask = types = ids;
    for (size_t row = 0; row < rows; ++row) {
      const size_t text = batch.texts[row];
      const auto first = static_cast<std::ptrdiff_t>(row * length);
      std::ranges::copy(texts[text], ids.begin() + first);
      std::fill_n(mask.begin() + first, texts[text].size(), 1);
      if (!kinds.empty()) std::ranges::copy(kinds[text], types.begin() + first);
      lengths.push_back(texts[text].size());
    }
  }

  Shape shape() const { return {static_cast<int64_t>(rows), static_cast<int64_t>(length)}; }
};

TextEncoder::TextEncoder(const fs::path& folder, const TextEncoderOptions& options)
    : options_(options) {
  LoadOptions load;
  load.device = options.device;
  load.isa = options.isa;
  load.precision = options.precision;
  load.stop = options.stop;
  load.progress = options.progress;
  const bool graph = fs::exists(folder / "model.pnnx.param");
  if (graph || !IsTextEncoder(folder)) {
    if (options.with_head) {
      throw Error(ErrorCode::kUnsupported,
                  "'" + folder.string() +
                      "' holds no reranker: that is a folder of Hugging Face with config.json, "
                      "safetensors and tokenizer.json, of the families " +
                      TextEncoderFamilies());
    }
    if (!graph) {
      throw Error(ErrorCode::kNotFound,
                  "'" + folder.string() +
                      "' holds no encoder: neither model.pnnx.param nor a config.json of the "
                      "families " +
                      TextEncoderFamilies());
    }
    LoadGraph(folder, load);
    return;
  }
  const TextEncoderFiles files = ReadTextEncoder(folder);
  config_ = files.config;
  TextEncoderGraph made = BuildTextEncoder(files, options.with_head);
  inputs_ = std::move(made.inputs);
  session_ = std::make_unique<Session>(RuntimeGraph::Build(std::move(made.graph), load),
                                       SessionOptions{.threads = options.threads});
}

void TextEncoder::LoadGraph(const fs::path& folder, const LoadOptions& load) {
  const auto graph =
      RuntimeGraph::Load(folder / "model.pnnx.param", folder / "model.pnnx.bin", load);
  const size_t inputs = graph->inputs().size();
  if (inputs < 1 || inputs > 3 || graph->outputs().empty()) {
    throw Error(ErrorCode::kUnsupported,
                "an encoder takes token ids, their mask and, if it must, types of tokens: this "
                "graph has " +
                    std::to_string(inputs) + " inputs");
  }
  masked_ = inputs > 1;
  session_ = std::make_unique<Session>(graph, SessionOptions{.threads = options_.threads});
}

/// Longest first, so that what needs most memory comes first; a power of two of texts each, so that
/// few shapes come up.
std::vector<TextBatch> TextEncoder::MakeBatches(std::span<const std::vector<int32_t>> texts) const {
  const size_t step = masked_ ? kLengthStep : 1;
  const auto padded = [&](size_t text) {
    const size_t length = (texts[text].size() + step - 1) / step * step;
    return std::min(length, std::max(static_cast<size_t>(longest_), texts[text].size()));
  };
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });
  std::vector<TextBatch> batches;
  for (size_t begin = 0; begin < order.size();) {
    const size_t length = padded(order[begin]);
    size_t alike = begin;
    while (alike < order.size() && padded(order[alike]) == length) ++alike;
    const size_t room = std::max<size_t>(static_cast<size_t>(options_.batch_tokens) / length, 1);
    const size_t rows = std::bit_floor(std::min({alike - begin, room, kMostRows}));
    const auto first = order.begin() + static_cast<ptrdiff_t>(begin);
    batches.push_back({{first, first + static_cast<ptrdiff_t>(rows)}, length});
    begin += rows;
  }
  return batches;
}

Tensor TextEncoder::InputOf(TextInput kind, const Columns& columns) const {
  const auto rows = static_cast<int64_t>(columns.rows);
  const auto length = static_cast<int64_t>(columns.length);
  // A number for each token of each text, or for each query and key.
  const auto floats = [](Shape shape, const auto& number) {
    Tensor tensor(DType::kF32, shape);
    float* to = tensor.data<float>();
    const int64_t width = shape[shape.rank() - 1];
    for (int64_t i = 0; i < tensor.elements(); ++i) to[i] = number(i / width, i % width);
    return tensor;
  };
  const auto is_token = [&](int64_t row, int64_t column) {
    return column < static_cast<int64_t>(columns.lengths[static_cast<size_t>(row)]);
  };
  std::vector<int64_t> numbers;
  switch (kind) {
    case TextInput::kTokens:
      return Tensor::From(std::span<const int64_t>(columns.ids), columns.shape());
    case TextInput::kTypes:
      return Tensor::From(std::span<const int64_t>(columns.types), columns.shape());
    case TextInput::kMask:
      return floats({rows, 1, 1, length}, [&](int64_t row, int64_t column) {
        return is_token(row, column) ? 0.0F : kNotSeen;
      });
    case TextInput::kShares:
      return floats({rows, 1, length}, [&](int64_t row, int64_t column) {
        const auto tokens = static_cast<float>(columns.lengths[static_cast<size_t>(row)]);
        return is_token(row, column) ? 1 / tokens : 0.0F;
      });
    case TextInput::kNear:
      return floats({1, 1, length, length}, [&](int64_t query, int64_t key) {
        return std::abs(query - key) <= config_.window ? 0.0F : kNotSeen;
      });
    case TextInput::kPositions:
      // Behind a text they stay within the table; what is there does not count.
      for (int64_t i = 0; i < rows * length; ++i) {
        numbers.push_back(config_.first_position + i % length);
      }
      return Tensor::From(std::span<const int64_t>(numbers), columns.shape());
    case TextInput::kBuckets:
      for (int64_t i = 0; i < length * length; ++i) {
        numbers.push_back(
            RelativeBucket(i % length - i / length, true, config_.buckets, config_.max_distance));
      }
      return Tensor::From(std::span<const int64_t>(numbers), {length, length});
  }
  throw Error(ErrorCode::kInternal, "an encoder has an input of no kind");
}

Tensor TextEncoder::RunBatch(const Columns& columns, const std::stop_token& stop) {
  std::vector<Tensor> tensors;
  for (const TextInput kind : inputs_) tensors.push_back(InputOf(kind, columns));
  if (inputs_.empty()) {
    const std::vector<int64_t>* of_graph[] = {&columns.ids, &columns.mask, &columns.types};
    const auto& ports = session_->graph().inputs();
    for (size_t i = 0; i < ports.size(); ++i) {
      tensors.push_back(TokenMatrix(ports[i], *of_graph[i], columns.shape()));
    }
  }
  RunOptions options;
  options.stop = stop;
  return session_->Forward(tensors, options).at(0);
}

void TextEncoder::Run(std::span<const std::vector<int32_t>> texts,
                      std::span<const std::vector<int32_t>> types, const std::stop_token& stop,
                      const std::function<void(const TextBatch&, const Tensor&)>& take) {
  for (const TextBatch& batch : MakeBatches(texts)) {
    take(batch, RunBatch(Columns(batch, texts, types), stop));
  }
}

Tokenizer ReadEncoderTokenizer(const fs::path& folder) {
  json::Json file = ReadFolderJson(folder, "tokenizer.json");
  if (!file.is_object()) {
    throw Error(ErrorCode::kInvalidModel,
                (folder / "tokenizer.json").string() + ": no JSON object");
  }
  file["truncation"] = nullptr;
  file["padding"] = nullptr;
  return Tokenizer::FromJson(file.dump());
}

int64_t ReadMaxTokens(const fs::path& folder, int64_t wanted, int64_t most) {
  const int64_t limit = most > 0 ? most : int64_t{1} << 20;
  if (wanted > limit) {
    throw Error(ErrorCode::kInvalidArgument, "max_tokens is " + std::to_string(wanted) +
                                                 ", but the model takes texts of " +
                                                 std::to_string(most) + " tokens at most");
  }
  if (wanted > 0) return wanted;
  const int64_t otherwise = most > 0 ? TokenizerLength(folder, most) : kDefaultTokens;
  if (!fs::exists(folder / "sentence_bert_config.json")) return otherwise;
  const json::Json file = ReadFolderJson(folder, "sentence_bert_config.json");
  const json::Object config(file, (folder / "sentence_bert_config.json").string());
  return std::clamp<int64_t>(config.Integer("max_seq_length").value_or(otherwise), 1, limit);
}

void CheckEncoderTokens(std::span<const int32_t> ids, int64_t most, const Tokenizer& tokenizer) {
  if (ids.empty() || static_cast<int64_t>(ids.size()) > most) {
    throw Error(ErrorCode::kInvalidArgument, "a text has 1 to " + std::to_string(most) +
                                                 " tokens, this one " + std::to_string(ids.size()));
  }
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= tokenizer.size()) {
      throw Error(ErrorCode::kInvalidArgument, "token " + std::to_string(id) +
                                                   " is not among the model's " +
                                                   std::to_string(tokenizer.size()));
    }
  }
}

}  // namespace oort
