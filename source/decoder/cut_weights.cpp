// SPDX-License-Identifier: MIT
#include "decoder/cut_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "parser/pnnx/promised.h"
#include "weights/weight_format.h"

namespace oort {
namespace {

Tensor Elements(const Tensor& tensor) {
  const PromisedBuffer* promised = PromisedBuffer::Of(tensor);
  return promised != nullptr ? promised->Take() : tensor;
}

/// A tensor that is made of another one when it is needed.
template <typename Make>
Tensor MadeOf(const Tensor& from, const Shape& shape, Make make) {
  auto promise = std::make_shared<Promise>(
      1, [from, make] { return std::vector<Tensor>{make(Elements(from))}; });
  return PromisedBuffer::Make(from.dtype(), shape, std::move(promise), 0);
}

/// Elements [begin, end) of the last axis of a matrix.
Tensor CopyColumns(const Tensor& from, int64_t begin, int64_t end) {
  Tensor to(from.dtype(), Shape{from.dim(0), end - begin});
  const size_t item = ItemSize(from.dtype());
  const size_t row = static_cast<size_t>(from.dim(1)) * item;
  const size_t bytes = static_cast<size_t>(end - begin) * item;
  const std::byte* read = from.raw() + static_cast<size_t>(begin) * item;
  std::byte* write = to.raw();
  for (int64_t i = 0; i < from.dim(0); ++i, read += row, write += bytes) {
    std::memcpy(write, read, bytes);
  }
  return to;
}

Shape ShapeOfRows(const Tensor& from, const std::vector<AxisRange>& rows) {
  Shape shape = from.shape();
  shape[0] = 0;
  for (const AxisRange& range : rows) shape[0] += range.size();
  return shape;
}

Tensor CopyRows(const Tensor& from, const std::vector<AxisRange>& rows) {
  Tensor to(from.dtype(), ShapeOfRows(from, rows));
  std::byte* write = to.raw();
  for (const AxisRange& range : rows) {
    const Tensor part = from.Rows(range.begin, range.end);
    std::memcpy(write, part.raw(), part.bytes());
    write += part.bytes();
  }
  return to;
}

/// The weights of an operator that have a row for each element that it gives.
constexpr const char* kOfRows[] = {"weight", "scale", "minimum", "bias"};
/// Those of attention that have one for each head of queries.
constexpr const char* kOfHeads[] = {"sinks", "distance_bias"};

}  // namespace

void TakeRows(Operator& op, const std::string& name, const std::vector<AxisRange>& rows) {
  const auto found = op.attributes.find(name);
  if (found != op.attributes.end()) found->second = CopyRows(Elements(found->second), rows);
}

Tensor WeightCutter::Rows(const Tensor& tensor, const AxisRange& rows) {
  if (tensor.has_data()) return tensor.Rows(rows.begin, rows.end);
  Tensor& cut = promised_[{tensor.buffer().get(), tensor.offset(), rows.begin, rows.end}];
  if (cut.defined()) return cut;
  Shape shape = tensor.shape();
  shape[0] = rows.size();
  auto promise = std::make_shared<Promise>(1, [tensor, rows] {
    const PromisedBuffer* promised = PromisedBuffer::Of(tensor);
    return std::vector<Tensor>{promised->Rows(rows.begin, rows.end)};
  });
  cut = PromisedBuffer::Make(tensor.dtype(), shape, std::move(promise), 0);
  return cut;
}

void WeightCutter::CutRows(Operator& op, const std::string& suffix, const AxisRange& rows) {
  for (const char* name : kOfRows) CutOne(op, name + suffix, rows);
}

void WeightCutter::CutRows(Operator& op, const std::string& suffix,
                           const std::vector<AxisRange>& rows) {
  if (rows.size() == 1) return CutRows(op, suffix, rows[0]);
  for (const char* name : kOfRows) {
    const auto found = op.attributes.find(name + suffix);
    if (found == op.attributes.end()) continue;
    Tensor& tensor = found->second;
    tensor = MadeOf(tensor, ShapeOfRows(tensor, rows),
                    [rows](const Tensor& whole) { return CopyRows(whole, rows); });
  }
}

void WeightCutter::CutHeads(Operator& op, const AxisRange& queries, const AxisRange& key_elements) {
  for (const char* name : kOfHeads) CutOne(op, name, queries);
  CutOne(op, "key_centre", key_elements);
}

void WeightCutter::CutOne(Operator& op, const std::string& name, const AxisRange& rows) {
  const auto found = op.attributes.find(name);
  if (found != op.attributes.end()) found->second = Rows(found->second, rows);
}

void WeightCutter::CutColumns(Operator& op, const std::string& suffix, int64_t columns,
                              const AxisRange& kept) {
  for (const char* name : {"weight", "scale", "minimum"}) {
    const auto found = op.attributes.find(name + suffix);
    if (found == op.attributes.end()) continue;
    Tensor& tensor = found->second;
    // Elements of this tensor for each column: half of one of 4 bits, fewer of scales.
    const int64_t width = tensor.dim(1);
    const int64_t begin = kept.begin * width / columns, end = kept.end * width / columns;
    tensor = MadeOf(tensor, Shape{tensor.dim(0), end - begin},
                    [begin, end](const Tensor& whole) { return CopyColumns(whole, begin, end); });
  }
}

int64_t WeightCutter::ColumnUnit(const Operator& op, const std::string& suffix, int64_t columns) {
  const auto weight = op.attributes.find("weight" + suffix);
  const auto format = op.params.find("format" + suffix);
  if (weight == op.attributes.end() || weight->second.rank() != 2 || columns < 1) return 0;
  const std::optional<WeightFormat> known =
      WeightFormatNamed(format == op.params.end() ? "f32" : format->second.text());
  if (!known) return 0;
  if (*known <= WeightFormat::kBf16) return 1;
  const auto scale = op.attributes.find("scale" + suffix);
  if (scale != op.attributes.end()) {
    const int64_t groups = scale->second.rank() == 2 ? scale->second.dim(1) : 0;
    return groups > 0 && columns % groups == 0 ? columns / groups : 0;
  }
  // Blocks: the least number of columns that are whole bytes of whole blocks.
  for (const int64_t unit : {32, 256}) {
    try {
      if (columns % unit == 0 && RowBytes(*known, unit) > 0) return unit;
    } catch (const Error&) {
      continue;  // that is a part of a block
    }
  }
  return 0;
}

void AttachWeights(Graph& graph) {
  const auto weight_of = [&](int operand) -> const Tensor* {
    const int producer = graph.operands[static_cast<size_t>(operand)].producer;
    if (producer < 0) return nullptr;
    const Operator& op = graph.operators[static_cast<size_t>(producer)];
    if (op.type != "pnnx.Attribute" || op.attributes.size() != 1) return nullptr;
    return &op.attributes.begin()->second;
  };
  for (size_t index = 0; index < graph.operators.size(); ++index) {
    Operator& op = graph.operators[index];
    if (op.input_names.size() != op.inputs.size()) continue;
    std::vector<int> inputs;
    std::vector<std::string> names;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor* const weight = op.input_names[i].empty() ? nullptr : weight_of(op.inputs[i]);
      if (weight != nullptr) {
        op.attributes.emplace(op.input_names[i], *weight);
        continue;
      }
      inputs.push_back(op.inputs[i]);
      names.push_back(op.input_names[i]);
    }
    if (inputs.size() == op.inputs.size()) continue;
    graph.SetInputs(static_cast<int>(index), inputs);
    op.input_names = std::move(names);
  }
  std::vector<bool> dead(graph.operators.size());
  for (size_t index = 0; index < graph.operators.size(); ++index) {
    const Operator& op = graph.operators[index];
    dead[index] = op.type == "pnnx.Attribute" && std::ranges::all_of(op.outputs, [&](int operand) {
                    return graph.operands[static_cast<size_t>(operand)].consumers.empty();
                  });
  }
  graph.Remove(dead);
}

}  // namespace oort
