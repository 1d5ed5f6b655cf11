// SPDX-License-Identifier: MIT
// Operators of a trace that compute with each token alone.
#include <algorithm>

#include "decoder/trace_reader.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

std::optional<WeightFormat> TracedFormat(DType dtype) {
  switch (dtype) {
    case DType::kF32: return WeightFormat::kF32;
    case DType::kF16: return WeightFormat::kF16;
    case DType::kBF16: return WeightFormat::kBf16;
    default: return {};
  }
}

std::optional<StoredMatrix> TracedMatrix(const Tensor* tensor) {
  if (tensor == nullptr || tensor->rank() != 2 || !tensor->has_data()) return {};
  const auto format = TracedFormat(tensor->dtype());
  if (!format) return {};
  StoredMatrix matrix;
  matrix.format = *format;
  matrix.rows = tensor->dim(0);
  matrix.columns = tensor->dim(1);
  matrix.data = *tensor;
  return matrix;
}

/// Elements before and behind an axis, tokens not counted.
struct Around {
  int64_t before, behind;
  Around(const TracedValue& x, int dim) : before(1), behind(1) {
    for (int i = 0; i < x.shape.rank(); ++i) {
      if (i != x.axis && i != dim) (i < dim ? before : behind) *= x.shape[i];
    }
  }
  bool alone() const { return before == 1 && behind == 1; }
};

Shape PadShape(const Shape& shape, int rank) {
  Shape padded = shape;
  while (padded.rank() < rank) padded.Insert(0, 1);
  return padded;
}

bool IsPart(const TracedValue::Part& part, bool negated, int64_t begin, int64_t end, int64_t step) {
  return part.negated == negated && part.begin == begin && part.end == end && part.step == step;
}

/// Whether the two are (-b, a) of the pairs (a, b) of one operand.
bool AreSwapped(const TracedValue& x, const TracedValue& y, bool interleaved) {
  const TracedValue::Part &a = x.part, &b = y.part;
  if (a.source < 0 || a.source != b.source || a.dim != b.dim || a.dim % 2 != 0) return false;
  const int64_t half = a.dim / 2;
  if (x.last() != half || y.last() != half) return false;
  if (interleaved) return IsPart(a, true, 1, a.dim, 2) && IsPart(b, false, 0, a.dim, 2);
  return IsPart(a, true, half, a.dim, 1) && IsPart(b, false, 0, half, 1);
}

}  // namespace

int TraceReader::AddTable(const Tensor& table, int input, const std::string& name) {
  const auto matrix = TracedMatrix(&table);
  if (!matrix) Refuse("a table of numbers was expected, got " + table.ToString());
  Written embedding{"oort.QuantizedEmbedding", name};
  embedding.AttachWeight(*matrix)
      .Set("num_embeddings", Value(matrix->rows))
      .Set("embedding_dim", Value(matrix->columns));
  return writer_.AddOne(std::move(embedding), {input});
}

void TraceReader::Embed() {
  const TracedValue& ids = In("input", 0);
  const Tensor* weight = FindAttribute(*op_, "weight");
  if (weight == nullptr && In("weight", 1).kind == Kind::kConstant) {
    weight = &In("weight", 1).constant;
  }
  if (weight == nullptr) Refuse("its table is no constant");
  if (!ParameterValue(*op_, "max_norm").IsNone()) Refuse("max_norm is not supported");
  if (ids.kind == Kind::kConstant) return EmbedConstant(ids.constant, *weight);
  if (ids.kind != Kind::kIds) Refuse("it looks up something else than tokens");
  SetResult(AddTable(*weight, ids.operand, op_->name), ids.axis);
  decoder_.hidden = weight->dim(1);
}

/// Positions that the trace made constants.
void TraceReader::EmbedConstant(const Tensor& ids, const Tensor& table) {
  if (ids.dtype() != DType::kI64 && ids.dtype() != DType::kI32)
    Refuse("its indices are no integers");
  const Tensor numbers = ids.To(DType::kI64);
  const std::span<const int64_t> values = numbers.span<int64_t>();
  bool consecutive =
      ids.elements() == tokens_ && table.rank() == 2 && values[0] >= 0 && values[0] < table.dim(0);
  for (size_t i = 1; consecutive && i < values.size(); ++i) {
    consecutive = values[i] == values[i - 1] + 1;
  }
  if (!consecutive || table.dtype() != DType::kF32) {
    Refuse("it looks up constants that are no positions");
  }
  const int64_t rows = table.dim(0) - values[0], width = table.dim(1);
  const auto elements = table.span<float>().subspan(static_cast<size_t>(values[0] * width));
  LimitPositions(rows);
  const Tensor rest = Tensor::From(elements, Shape{rows, width});
  SetResult(AddTable(rest, positions_, op_->name), ids.rank() - 1);
}

void TraceReader::LimitPositions(int64_t rows) {
  decoder_.positions = decoder_.positions == 0 ? rows : std::min(decoder_.positions, rows);
}

void TraceReader::Linear() {
  const TracedValue& x = Plain(TokenInput());
  const auto matrix = TracedMatrix(FindAttribute(*op_, "weight"));
  const Tensor* bias = FindAttribute(*op_, "bias");
  if (!matrix || (bias == nullptr && ParameterText(*op_, "bias") == "True")) {
    Refuse("its weights are no constants");
  }
  if (x.axis + 1 == x.shape.rank() || x.last() != matrix->columns) {
    Refuse("it multiplies another axis than the features of each token");
  }
  Written linear{"oort.QuantizedLinear", op_->name};
  linear.AttachWeight(*matrix)
      .Set("in_features", Value(matrix->columns))
      .Set("out_features", Value(Value::List{Value(matrix->rows)}));
  if (bias != nullptr) linear.Attach("bias", *bias);
  const int64_t rest = x.width() / matrix->columns;
  const int in = rest == 1 ? x.operand : Reshape(x.operand, {rest, matrix->columns});
  const int out = writer_.AddOne(std::move(linear), {in});
  SetResult(rest == 1 ? out : Reshape(out, {rest * matrix->rows}), x.axis);
}

/// x W, perhaps with a bias before them, where W is not transposed.
void TraceReader::MultiplyConstant() {
  const TracedValue& x = Plain(TokenInput());
  const size_t count = op_->inputs.size();
  const TracedValue& weight = In(count - 1);
  if (count < 2 || weight.kind != Kind::kConstant || weight.constant.rank() != 2 ||
      In(count - 2).kind == Kind::kConstant || x.axis + 1 == x.shape.rank() ||
      x.width() != weight.constant.dim(0)) {
    Refuse("it is no product of the features of each token with a constant matrix");
  }
  std::vector<int> inputs;
  for (size_t i = 0; i < count; ++i) {
    const TracedValue& input = In(i);
    if (i + 2 < count && input.constant.elements() != weight.constant.dim(1)) {
      Refuse("its bias is not one number for each column");
    }
    inputs.push_back(input.kind == Kind::kConstant ? Constant(input.constant) : x.operand);
  }
  SetResult(writer_.AddOne(Copy(), inputs), x.axis);
}

void TraceReader::Norm() {
  const TracedValue& x = Plain(TokenInput());
  const std::vector<int64_t> dims = ParameterValue(*op_, "normalized_shape").AsInts();
  const int rank = x.shape.rank(), first = rank - static_cast<int>(dims.size());
  if (dims.empty() || first <= x.axis ||
      !std::equal(dims.begin(), dims.end(), x.shape.begin() + first)) {
    Refuse("it norms other axes than the features of each token");
  }
  const int64_t width = x.width(), rest = width / x.shape.Product(first, rank);
  std::vector<int64_t> features = dims;
  if (rest != 1) features.insert(features.begin(), rest);
  const bool flat = features.size() == 1;
  const int out = writer_.AddOne(Copy(), {flat ? x.operand : Reshape(x.operand, features)});
  SetResult(flat ? out : Reshape(out, {width}), x.axis);
}

/// A mean or a sum over the last axis, as norms have them that are spelled out.
void TraceReader::Reduce() {
  const TracedValue& x = Plain(TokenInput());
  const int rank = x.shape.rank();
  const Value dim = ParameterValue(*op_, "dim"), keepdim = ParameterValue(*op_, "keepdim");
  const std::vector<int64_t> dims =
      dim.IsInt() || dim.IsList() ? dim.AsInts() : std::vector<int64_t>();
  if (dims.size() != 1 || (dims[0] != -1 && dims[0] != rank - 1) || x.axis == rank - 1 ||
      !keepdim.IsBool() || !keepdim.AsBool()) {
    Refuse("it reduces another axis than the last, the features of each token");
  }
  const int64_t rest = x.width() / x.last();
  Written reduce = Copy();
  reduce.Set("dim", Value(Value::List{Value(-1)}));
  const int in = rest == 1 ? x.operand : Reshape(x.operand, {rest, x.last()});
  const int out = writer_.AddOne(std::move(reduce), {in});
  SetResult(rest == 1 ? out : Reshape(out, {rest}), x.axis);
}

void TraceReader::Split() {
  const TracedValue x = Plain(TokenInput());
  const int dim = AxisParameter("dim", x.shape.rank());
  int64_t begin = 0;
  for (size_t i = 0; i < op_->outputs.size(); ++i) {
    const Shape shape = ShapeOf(op_->outputs[i]);
    if (dim >= shape.rank()) Refuse("its output has too few axes");
    const int64_t end = begin + std::min(shape[dim], x.shape[dim]);
    Cut(x, dim, {begin, end, 1}, i);
    begin = end;
  }
  if (begin != x.shape[dim]) Refuse("its parts are not the whole");
}

void TraceReader::Slice() {
  const TracedValue x = Plain(TokenInput());
  const int dim = AxisParameter("dim", x.shape.rank());
  const auto number = [&](const char* name, int64_t absent) {
    const Value value = ParameterValue(*op_, name);
    if (!value.IsNone() && !value.IsInt()) Refuse(std::string(name) + " is no integer");
    return value.IsNone() ? absent : value.AsInt();
  };
  const int64_t size = x.shape[dim], step = number("step", 1);
  if (step < 1) Refuse("its step is not positive");
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t begin = clamp(number("start", 0)), end = clamp(number("end", INT64_MAX));
  Cut(x, dim, {begin, std::max(begin, end), step}, 0);
}

void TraceReader::Cut(const TracedValue& x, int dim, const Range& range, size_t output) {
  const int64_t size = x.shape[dim];
  if (range.begin == 0 && range.end == size && range.step == 1) return SetOutput(x, x.axis, output);
  if (dim == x.axis) {
    Refuse("it takes some of the tokens: trace the logits of all tokens of the input");
  }
  const Around around(x, dim);
  TracedValue out;
  out.kind = Kind::kTokens;
  if (around.behind == 1) out.part = {x.operand, size, range.begin, range.end, range.step};
  if (range.begin < range.end) {
    const bool flat = around.alone();
    Written slice{"Tensor.slice", NewName()};
    slice.Set("dim", Value(int64_t{flat ? 1 : 2}))
        .Set("start", Value(range.begin))
        .Set("end", Value(range.end))
        .Set("step", Value(range.step));
    const int in = flat ? x.operand : Reshape(x.operand, {around.before, size, around.behind});
    out.operand = writer_.AddOne(std::move(slice), {in});
    const int64_t count = (range.end - range.begin - 1) / range.step + 1;
    if (!flat) out.operand = Reshape(out.operand, {around.before * count * around.behind});
  }
  SetOutput(out, x.axis, output);
}

void TraceReader::Cat() {
  std::vector<TracedValue> parts;
  for (size_t i = 0; i < op_->inputs.size(); ++i) {
    const TracedValue& x = In(i);
    if (x.kind != Kind::kTokens) Plain(x);
    if (x.shape.elements() != 0) parts.push_back(x);
  }
  if (parts.empty()) Refuse("it has no inputs");
  const int axis = parts[0].axis, dim = AxisParameter("dim", parts[0].shape.rank());
  for (const TracedValue& x : parts) {
    if (x.axis != axis || x.shape.rank() != parts[0].shape.rank()) Refuse("its inputs do not fit");
  }
  if (dim == axis) Refuse("it joins tokens with others, so it depends on the traced length");
  if (parts.size() == 1) return SetOutput(parts[0], axis);
  const Around around(parts[0], dim);
  if (around.behind == 1 && JoinTurned(parts)) return;
  std::vector<int> inputs;
  int64_t width = 0;
  for (const TracedValue& x : parts) {
    width += Plain(x).width();
    inputs.push_back(around.alone()
                         ? x.operand
                         : Reshape(x.operand, {around.before, x.shape[dim], around.behind}));
  }
  Written cat{"torch.cat", op_->name};
  cat.Set("dim", Value(int64_t{around.alone() ? 1 : 2}));
  TracedValue out;
  out.kind = Kind::kTokens;
  out.operand = writer_.AddOne(std::move(cat), inputs);
  if (!around.alone()) out.operand = Reshape(out.operand, {width});
  if (parts.size() == 2 && around.behind == 1 && AreSwapped(parts[0], parts[1], false)) {
    out.swapped = {parts[0].part.source, parts[0].part.dim, false};
  }
  SetOutput(out, axis);
}

/// Heads of which the first part is turned and the rest is not.
bool TraceReader::JoinTurned(const std::vector<TracedValue>& parts) {
  if (parts.size() != 2 || parts[0].rotary < 0 || parts[1].rotary >= 0) return false;
  const TracedValue::Part &a = parts[0].part, &b = parts[1].part;
  if (a.source < 0 || a.source != b.source || a.dim != b.dim || parts[0].repeat != 1 ||
      !IsPart(a, false, 0, b.begin, 1) || !IsPart(b, false, a.end, a.dim, 1) ||
      parts[0].last() != a.end || parts[1].last() != a.dim - a.end) {
    return false;
  }
  TracedValue out = parts[0];
  out.operand = a.source;
  out.turn_dim = a.dim;
  out.part = {};
  SetOutput(out, parts[0].axis);
  return true;
}

void TraceReader::Stack() {
  const int rank = In(size_t{0}).shape.rank(), axis = In(size_t{0}).axis;
  if (AxisParameter("dim", rank + 1) != rank) Refuse("it does not stack behind the last axis");
  std::vector<int> inputs;
  int64_t width = 0;
  for (size_t i = 0; i < op_->inputs.size(); ++i) {
    const TracedValue& x = Plain(In(i));
    if (x.axis != axis || x.shape != In(size_t{0}).shape) Refuse("its inputs do not fit");
    width += x.width();
    inputs.push_back(Reshape(x.operand, {x.width(), 1}));
  }
  Written cat{"torch.cat", op_->name};
  cat.Set("dim", Value(int64_t{2}));
  TracedValue out;
  out.kind = Kind::kTokens;
  out.operand = Reshape(writer_.AddOne(std::move(cat), inputs), {width});
  if (inputs.size() == 2 && AreSwapped(In(size_t{0}), In(1), true)) {
    out.swapped = {In(size_t{0}).part.source, In(size_t{0}).part.dim, true};
  }
  SetOutput(out, axis);
}

/// A constant with a row for each position becomes a look-up by position.
TracedValue TraceReader::ByPosition(const Tensor& table, const Shape& padded, int axis) {
  const int64_t width = padded.Product(axis + 1, padded.rank());
  if (padded.Product(0, axis) != 1) Refuse("one of its constants mixes tokens with other axes");
  LimitPositions(tokens_);
  TracedValue value;
  value.kind = Kind::kTokens;
  value.operand = AddTable(table.Reshaped(Shape{tokens_, width}), positions_, NewName());
  value.shape = padded;
  value.axis = axis;
  return value;
}

void TraceReader::Elementwise(const Formula& formula) {
  const auto is_score = [&](size_t i) { return In(i).kind == Kind::kScores; };
  std::vector<TracedValue> inputs;
  const Shape shape = ShapeOf(op_->outputs[0]);
  int axis = -1;
  for (size_t i = 0; i < op_->inputs.size(); ++i) {
    if (is_score(i)) return Score(formula);
    inputs.push_back(In(i));
    if (In(i).kind == Kind::kConstant) continue;
    const int at = In(i).axis + shape.rank() - In(i).shape.rank();
    if (axis >= 0 && at != axis) Refuse("the tokens of its inputs are different axes");
    axis = at;
  }
  if (axis < 0) Refuse("it computes with constants alone, which pnnx should have folded");
  if (Rotate(formula)) return;
  bool flat = true;
  for (TracedValue& x : inputs) {
    const Shape padded = PadShape(x.shape, shape.rank());
    if (padded.rank() != shape.rank()) Refuse("its inputs do not fit its output");
    if (x.kind == Kind::kConstant && padded[axis] == tokens_) {
      x = ByPosition(x.constant, padded, axis);
    }
    if (x.kind != Kind::kConstant) Plain(x);
    flat = flat && (x.kind == Kind::kConstant ? x.constant.elements() == 1 : padded == shape);
  }
  std::vector<int> operands;
  for (const TracedValue& x : inputs) {
    std::vector<int64_t> features;
    const Shape padded = PadShape(x.shape, shape.rank());
    for (int i = 0; i < padded.rank(); ++i) {
      if (i != axis) features.push_back(padded[i]);
    }
    if (x.kind == Kind::kConstant) {
      operands.push_back(Constant(x.constant.Reshaped(flat ? Shape{1} : Shape(features))));
    } else {
      operands.push_back(flat ? x.operand : Reshape(x.operand, features));
    }
  }
  const int out = writer_.AddOne(Copy(), operands);
  SetResult(flat ? out : Reshape(out, {shape.elements() / tokens_}), axis);
  if (formula.IsCall("neg", 1) && formula.args[0].operand() == 0) {
    TracedValue& negated = values_[static_cast<size_t>(op_->outputs[0])];
    negated.part = inputs[0].part;
    negated.part.negated = !negated.part.negated;
  }
}

}  // namespace oort
