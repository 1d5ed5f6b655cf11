// SPDX-License-Identifier: MIT
#include "decoder/trace_reader.h"

#include <algorithm>

#include "graph/passes/axes.h"
#include "graph/passes/elementwise.h"

namespace oort {

void TraceReader::Refuse(const std::string& why) const {
  throw Error(ErrorCode::kUnsupported, op_->Describe() + ": " + why);
}

Shape TraceReader::ShapeOf(int operand) const {
  const Operand& edge = traced_.operands[static_cast<size_t>(operand)];
  if (!edge.has_shape || !edge.shape.IsKnown()) {
    Refuse("the shape of '" + edge.name + "' is not in the file: trace with inputs of one shape");
  }
  edge.shape.elements();  // throws where there are too many
  return edge.shape;
}

const TracedValue& TraceReader::In(size_t index) const {
  if (index >= op_->inputs.size()) Refuse("it has too few inputs");
  return values_[static_cast<size_t>(op_->inputs[index])];
}

const TracedValue& TraceReader::In(const std::string& name, size_t index) const {
  static const TracedValue kNothing;
  const auto& names = op_->input_names;
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return In(static_cast<size_t>(at - names.begin()));
  const bool named = index < names.size() && !names[index].empty();
  return index < op_->inputs.size() && !named ? In(index) : kNothing;
}

const TracedValue& TraceReader::TokenInput() const {
  const TracedValue* found = nullptr;
  for (size_t i = 0; i < op_->inputs.size(); ++i) {
    if (In(i).kind == Kind::kConstant) continue;
    if (found != nullptr) Refuse("one input was expected beside constants");
    found = &In(i);
  }
  if (found == nullptr) Refuse("it computes with constants alone, which pnnx should have folded");
  return *found;
}

const TracedValue& TraceReader::Plain(const TracedValue& x) const {
  if (x.kind == Kind::kScores || x.kind == Kind::kWeights) {
    Refuse("it does something with the scores of an attention that is not known");
  }
  if (x.kind != Kind::kTokens || x.operand < 0) Refuse("its input does not belong to the tokens");
  if (x.rotary >= 0 || x.repeat != 1) {
    Refuse("it uses turned or repeated heads, which only an attention may");
  }
  return x;
}

int TraceReader::AxisParameter(const std::string& name, int rank) const {
  const auto at = op_->params.find(name);
  const Value value = at == op_->params.end() ? Value() : at->second.value();
  if (!value.IsInt() || value.AsInt() < -rank || value.AsInt() >= rank) {
    Refuse("'" + name + "' is no axis of its input");
  }
  const int axis = static_cast<int>(value.AsInt());
  return axis < 0 ? axis + rank : axis;
}

void TraceReader::SetOutput(TracedValue value, int axis, size_t output) {
  const int operand = op_->outputs[output];
  value.shape = ShapeOf(operand);
  value.axis = axis;
  if (axis < 0 || axis >= value.shape.rank() || value.shape[axis] != tokens_) {
    Refuse("its output " + value.shape.ToString() + " has no axis of the " +
           std::to_string(tokens_) + " traced tokens where one was expected");
  }
  values_[static_cast<size_t>(operand)] = std::move(value);
}

void TraceReader::SetResult(int operand, int axis, size_t output) {
  TracedValue value;
  value.kind = Kind::kTokens;
  value.operand = operand;
  SetOutput(std::move(value), axis, output);
}

std::string TraceReader::NewName() { return op_->name + "." + std::to_string(names_++); }

int TraceReader::Reshape(int operand, std::vector<int64_t> features) {
  features.insert(features.begin(), -1);
  Written reshape{"Tensor.reshape", NewName()};
  reshape.Set("shape", Value::Ints(features));
  return writer_.AddOne(std::move(reshape), {operand});
}

int TraceReader::Constant(const Tensor& tensor) {
  Written constant{"pnnx.Attribute", NewName()};
  return writer_.AddOne(std::move(constant.Attach("data", tensor)), {});
}

Written TraceReader::Copy() const { return {op_->type, op_->name, op_->params, op_->attributes}; }

void TraceReader::ReadInput() {
  const std::vector<int> inputs = traced_.InputOperators();
  if (inputs.size() != 1) {
    throw Error(ErrorCode::kUnsupported,
                "a traced decoder has one input, the tokens; this graph has " +
                    std::to_string(inputs.size()));
  }
  op_ = &traced_.operators[static_cast<size_t>(inputs[0])];
  if (op_->outputs.size() != 1) Refuse("one output was expected");
  const Shape shape = ShapeOf(op_->outputs[0]);
  const DType dtype = traced_.operands[static_cast<size_t>(op_->outputs[0])].dtype;
  const int rank = shape.rank();
  if ((dtype != DType::kI64 && dtype != DType::kI32) || rank < 1 || rank > 2 ||
      (rank == 2 && shape[0] != 1)) {
    Refuse("tokens (1,T) of one sequence were expected, got " + shape.ToString());
  }
  tokens_ = shape[rank - 1];
  if (tokens_ < 2) Refuse("a trace of at least two tokens is needed");
  const Shape any{Shape::kUnknown};
  TracedValue ids;
  ids.kind = Kind::kIds;
  ids.operand = writer_.AddInput("pnnx_input_0", DType::kI32, any);
  positions_ = writer_.AddInput("pnnx_input_1", DType::kI32, any);
  writer_.AddInput("pnnx_input_2", DType::kI32, any);
  SetOutput(ids, rank - 1);
}

TracedDecoder TraceReader::Read() {
  ReadInput();
  for (const int index : traced_.TopologicalOrder()) {
    const Operator& op = traced_.operators[static_cast<size_t>(index)];
    op_ = &op;
    if (op.type == "pnnx.Attribute") {
      const auto data = op.attributes.find("data");
      if (op.outputs.size() != 1 || data == op.attributes.end() || !data->second.has_data()) {
        Refuse("a constant was expected in its attribute 'data'");
      }
      TracedValue& value = values_[static_cast<size_t>(op.outputs[0])];
      value.kind = Kind::kConstant;
      value.constant = data->second;
      value.shape = data->second.shape();
    } else if (op.type == "pnnx.Output") {
      ReadOutput();
    } else if (op.type != "pnnx.Input") {
      Visit(op);
    }
  }
  if (output_ < 0) throw Error(ErrorCode::kUnsupported, "the traced graph has no output");
  if (decoder_.layers == 0) {
    throw Error(ErrorCode::kUnsupported, "the traced graph has no attention");
  }
  writer_.Add({"pnnx.Output", "pnnx_output_0"}, {output_}, 0);
  decoder_.graph = writer_.Take();
  decoder_.traced_tokens = tokens_;
  return std::move(decoder_);
}

void TraceReader::Visit(const Operator& op) {
  using Handler = void (TraceReader::*)();
  static const std::map<std::string, Handler, std::less<>> kHandlers = {
      {"nn.Embedding", &TraceReader::Embed},
      {"F.embedding", &TraceReader::Embed},
      {"nn.Linear", &TraceReader::Linear},
      {"torch.addmm", &TraceReader::MultiplyConstant},
      {"torch.mm", &TraceReader::MultiplyConstant},
      {"torch.matmul", &TraceReader::MatMul},
      {"nn.LayerNorm", &TraceReader::Norm},
      {"nn.RMSNorm", &TraceReader::Norm},
      {"torch.mean", &TraceReader::Reduce},
      {"torch.sum", &TraceReader::Reduce},
      {"Tensor.reshape", &TraceReader::View},
      {"Tensor.view", &TraceReader::View},
      {"torch.flatten", &TraceReader::View},
      {"torch.unflatten", &TraceReader::View},
      {"torch.unsqueeze", &TraceReader::View},
      {"torch.squeeze", &TraceReader::View},
      {"torch.clone", &TraceReader::View},
      {"Tensor.contiguous", &TraceReader::View},
      {"torch.transpose", &TraceReader::Permute},
      {"torch.permute", &TraceReader::Permute},
      {"Tensor.permute", &TraceReader::Permute},
      {"Tensor.expand", &TraceReader::Expand},
      {"torch.split", &TraceReader::Split},
      {"torch.tensor_split", &TraceReader::Split},
      {"torch.chunk", &TraceReader::Split},
      {"Tensor.slice", &TraceReader::Slice},
      {"torch.cat", &TraceReader::Cat},
      {"torch.stack", &TraceReader::Stack},
      {"F.softmax", &TraceReader::Softmax},
      {"nn.Softmax", &TraceReader::Softmax},
      {"F.scaled_dot_product_attention", &TraceReader::AttendFused},
  };
  if (const auto handler = kHandlers.find(op.type); handler != kHandlers.end()) {
    return (this->*handler->second)();
  }
  const auto formula = ElementwiseFormula(op);
  if (formula) return Elementwise(*formula);
  if (op.type == "nn.MultiheadAttention") {
    Refuse("its tokens see those behind them: this is an encoder and no causal decoder");
  }
  Refuse("it is not known to treat each token alone, as all but attention must in a decoder");
}

void TraceReader::ReadOutput() {
  if (output_ >= 0 || op_->inputs.size() != 1) {
    Refuse("a traced decoder has one output, the logits");
  }
  const TracedValue& logits = Plain(In(size_t{0}));
  const int rank = logits.shape.rank();
  if (rank < 2 || logits.axis != rank - 2 || logits.width() != logits.last()) {
    Refuse("logits (1,T,vocabulary) were expected, got " + logits.shape.ToString());
  }
  output_ = logits.operand;
  decoder_.vocabulary = logits.last();
}

void TraceReader::View() {
  const TracedValue& x = TokenInput();
  if (x.kind != Kind::kTokens && x.kind != Kind::kIds) Plain(x);
  const Shape shape = ShapeOf(op_->outputs[0]);
  const int64_t before = x.shape.Product(0, x.axis);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != tokens_ || shape.Product(0, axis) != before) continue;
    if (shape.elements() != x.shape.elements()) break;
    return SetOutput(x, axis);
  }
  Refuse("it makes " + shape.ToString() + " of " + x.shape.ToString() +
         ", which mixes the axis of the " + std::to_string(tokens_) +
         " traced tokens with others, so it depends on the traced length");
}

void TraceReader::Permute() {
  const TracedValue& x = TokenInput();
  if (x.kind != Kind::kTokens) Plain(x);
  const std::vector<int> order =
      AxisOrder(*op_, traced_.operands[static_cast<size_t>(op_->outputs[0])]);
  if (order.empty() || static_cast<int>(order.size()) != x.shape.rank()) {
    Refuse("its axes are not known");
  }
  const int axis = static_cast<int>(std::find(order.begin(), order.end(), x.axis) - order.begin());
  // Axes of one element do not count, nor does where the tokens stand.
  std::vector<int> features;
  for (const int from : order) {
    if (from != x.axis && x.shape[from] != 1) features.push_back(from);
  }
  if (std::is_sorted(features.begin(), features.end())) return SetOutput(x, axis);
  std::vector<int> sorted = features;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> dims, moved = {0};
  for (const int from : sorted) dims.push_back(x.shape[from]);
  for (const int from : features) {
    moved.push_back(1 + (std::find(sorted.begin(), sorted.end(), from) - sorted.begin()));
  }
  Written permute{"Tensor.permute", op_->name};
  permute.Set("dims", Value::Ints(moved));
  const int permuted = writer_.AddOne(std::move(permute), {Reshape(Plain(x).operand, dims)});
  SetResult(Reshape(permuted, {x.width()}), axis);
}

/// Heads of keys and values that several heads of queries share.
void TraceReader::Expand() {
  const TracedValue& x = TokenInput();
  if (x.kind != Kind::kTokens) Plain(x);
  const Shape shape = ShapeOf(op_->outputs[0]);
  if (shape.rank() != x.shape.rank()) Refuse("it adds axes");
  TracedValue out = x;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == x.shape[axis]) continue;
    int64_t behind = 1;
    for (int i = axis + 1; i < shape.rank(); ++i) {
      if (i != x.axis) behind *= shape[i];
    }
    if (x.shape[axis] != 1 || axis + 1 == shape.rank() || behind != x.last() || out.repeat != 1) {
      Refuse("it repeats something else than each head of keys or values");
    }
    out.repeat = shape[axis];
  }
  SetOutput(out, x.axis);
}

}  // namespace oort
