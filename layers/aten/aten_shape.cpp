// SPDX-License-Identifier: MIT
// Splits, pads and scatters of ATen that are a few calls of operators that pnnx names.
#include <algorithm>

#include "core/checked.h"
#include "graph/dtype_names.h"
#include "layers/aten/overloads.h"

namespace oort {
namespace {

/// A number of parts, or where they begin; either may be a tensor.
std::vector<Value> TensorSplit(const Decomposer& call, const Args& args) {
  Value where = args[1];
  if (where.IsTensor()) {
    const Tensor& tensor = where.AsTensor();
    if (!tensor.has_data()) return {Value::Deferred()};
    const Tensor wide = tensor.To(DType::kI64);
    where = tensor.rank() == 0 ? Value(wide.data<int64_t>()[0]) : Value::Ints(wide.span<int64_t>());
  }
  const char* name = where.IsInt() ? "sections" : "indices";
  // A list of no indices is told from an argument that is not given.
  if (where.IsList() && where.AsList().empty()) return {Value(Value::List{args[0]})};
  return {call("torch.tensor_split",
               {{"input", args[0]}, {name, where}, {"dim", ValueOr(args, 2, 0)}})};
}

/// How often each position is repeated, given alone: the positions themselves.
std::vector<Value> RepeatInterleave(const Decomposer& call, const Args& args) {
  if (args.inputs().size() > 2) {
    return {call("torch.repeat_interleave",
                 {{"input", args[0]}, {"repeats", args[1]}, {"dim", args[2]}})};
  }
  const Value positions = call("torch.arange", {{"end", args.tensor(0).elements()}});
  return {
      call("torch.repeat_interleave", {{"input", positions}, {"repeats", args[0]}, {"dim", 0}})};
}

/// The same bytes as elements of another dtype; the last axis stretches or shrinks.
std::vector<Value> ViewDType(const Decomposer& call, const Args& args) {
  const Value size = ParameterOf(args[1]);
  if (size.IsDeferred()) return {Value::Deferred()};
  if (size.IsList()) return {call("Tensor.view", {{"input", args[0]}, {"shape", size}})};
  const Tensor& x = args.tensor(0);
  const DType dtype = RequireTorchDType(size);
  const auto from = static_cast<int64_t>(ItemSize(x.dtype()));
  const auto to = static_cast<int64_t>(ItemSize(dtype));
  Shape shape = x.shape();
  if (from != to) {
    const int last = shape.rank() - 1;
    if (last < 0 || CheckedMultiply(shape[last], from) % to != 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a last axis whose bytes are whole elements of " +
                      std::string(Name(dtype)) + ", got " + x.ToString());
    }
    shape[last] = shape[last] * from / to;
  }
  if (!call.computes()) return {Tensor::Meta(dtype, shape)};
  Tensor result(dtype, shape);
  if (result.bytes() > 0) std::copy_n(x.raw(), result.bytes(), result.raw());
  return {result};
}

std::vector<Value> SumToSize(const Decomposer& call, const Args& args) {
  const std::vector<int64_t> wanted = args[1].AsInts();
  const Shape& shape = args.shape(0);
  const int lead = shape.rank() - static_cast<int>(wanted.size());
  Value::List dims;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t extent = i < lead ? 1 : wanted[static_cast<size_t>(i - lead)];
    if (i < lead || (extent == 1 && shape[i] != 1)) {
      dims.emplace_back(i);
    } else if (extent != shape[i]) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "expected a size that expands to " + shape.ToString() + ", got " + args[1].ToString());
    }
  }
  if (lead < 0) throw Error(ErrorCode::kInvalidArgument, "the size has more axes than the input");
  if (dims.empty()) return {args[0]};
  const Value sum =
      call("torch.sum", {{"input", args[0]}, {"dim", Value(std::move(dims))}, {"keepdim", true}});
  return {call.Reshape(sum, Shape(wanted))};
}

/// Sequences of different lengths, filled up to the longest and stacked.
std::vector<Value> PadSequence(const Decomposer& call, const Args& args) {
  const Value::List& sequences = args[0].AsList();
  int64_t longest = 0;
  for (const Value& x : sequences) {
    if (x.AsTensor().rank() == 0) {
      throw Error(ErrorCode::kInvalidArgument, "expected sequences of rank 1 and above");
    }
    longest = std::max(longest, x.AsTensor().dim(0));
  }
  const bool left = ValueOr(args, 3, "right").AsString() == "left";
  Value::List padded;
  for (const Value& x : sequences) {
    const Tensor& tensor = x.AsTensor();
    Value::List pad(static_cast<size_t>(2 * tensor.rank()), Value(0));
    pad[pad.size() - (left ? 2 : 1)] = longest - tensor.dim(0);
    padded.push_back(call("F.pad", {{"input", x},
                                    {"pad", Value(std::move(pad))},
                                    {"mode", "constant"},
                                    {"value", ValueOr(args, 2, 0.0)}}));
  }
  const bool batch_first = ValueOr(args, 1, false).AsBool();
  return {call("torch.stack", {{"", Value(std::move(padded))}, {"dim", batch_first ? 0 : 1}})};
}

Value PutAt(const Decomposer& call, const Value& x, const Value& positions, const Value& values) {
  return call("aten::put", {{"", x}, {"", positions}, {"", values}});
}

/// input with src where torch.as_strided would read.
std::vector<Value> AsStridedScatter(const Decomposer& call, const Args& args) {
  const Value flat = call("torch.arange", {{"end", args.tensor(0).elements()}});
  const Value positions = call("torch.as_strided", {{"input", flat},
                                                    {"size", args[2]},
                                                    {"stride", args[3]},
                                                    {"storage_offset", ValueOr(args, 4, 0)}});
  return {PutAt(call, args[0], positions, args[1])};
}

/// The main diagonal set to a value; with `wrap` it begins anew below the last column.
std::vector<Value> FillDiagonal(const Decomposer& call, const Args& args) {
  const Shape& shape = args.shape(0);
  const int rank = shape.rank();
  const bool cube =
      std::all_of(shape.begin(), shape.end(), [&](int64_t extent) { return extent == shape[0]; });
  if (rank < 2 || (rank > 2 && !cube)) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected a matrix, or axes of one length, got " + shape.ToString());
  }
  if (shape.elements() == 0) return {args[0]};
  int64_t step = 0, stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    step += stride;
    stride *= shape[i];
  }
  int64_t count = std::min(shape[0], shape[1]);
  if (rank == 2 && ValueOr(args, 2, false).AsBool() && shape[0] > shape[1]) {
    count = (shape.elements() + step - 1) / step;
  }
  const Value positions =
      call("torch.arange", {{"start", 0}, {"end", (count - 1) * step + 1}, {"step", step}});
  const Value values =
      call("Tensor.new_full",
           {{"input", args[0]}, {"size", Value(Value::List{count})}, {"fill_value", args[1]}});
  return {PutAt(call, args[0], positions, values)};
}

/// All choices of r elements, in the order of their positions.
std::vector<Value> Combinations(const Decomposer& call, const Args& args) {
  const int64_t length = args.tensor(0).elements(), r = ValueOr(args, 1, 2).AsInt();
  const int64_t repeats = ValueOr(args, 2, false).AsBool() ? 0 : 1;
  if (args.tensor(0).rank() != 1 || r < 0 || r > 16) {
    throw Error(ErrorCode::kInvalidArgument, "expected a vector and r from 0 to 16, got " +
                                                 args.tensor(0).ToString() + " and " +
                                                 std::to_string(r));
  }
  std::vector<int64_t> chosen, all;
  const std::function<void(int64_t)> extend = [&](int64_t first) {
    if (static_cast<int64_t>(chosen.size()) == r) {
      if (all.size() > (size_t{1} << 26)) {
        throw Error(ErrorCode::kUnsupported, "there are too many combinations");
      }
      all.insert(all.end(), chosen.begin(), chosen.end());
      return;
    }
    for (int64_t i = first; i < length; ++i) {
      chosen.push_back(i);
      extend(i + repeats);
      chosen.pop_back();
    }
  };
  if (r > 0) extend(0);
  const auto rows = r > 0 ? static_cast<int64_t>(all.size()) / r : 0;
  const Tensor index =
      Tensor::From(std::span<const int64_t>(all), Shape{static_cast<int64_t>(all.size())});
  const Value picked =
      call("torch.index_select", {{"input", args[0]}, {"dim", 0}, {"index", index}});
  return {call.Reshape(picked, r > 0 ? Shape{rows, r} : Shape{0})};
}

std::vector<Value> EinsumOfList(const Decomposer& call, const Args& args) {
  std::vector<Decomposer::Argument> arguments{{"equation", args[0]}};
  for (const Value& operand : args[1].AsList()) arguments.emplace_back("", operand);
  return {call("torch.einsum", arguments)};
}

/// The coordinates of the first `size` elements that are not 0, filled up with a value.
std::vector<Value> NonzeroStatic(const Decomposer& call, const Args& args) {
  const int64_t size = args[1].AsInt(), fill = ValueOr(args, 2, -1).AsInt();
  const Shape& shape = args.shape(0);
  if (size < 0) throw Error(ErrorCode::kInvalidArgument, "expected a size of at least 0");
  const Shape wanted{size, shape.rank()};
  if (!call.computes()) return {Tensor::Meta(DType::kI64, wanted)};
  const Value found = call("torch.nonzero", {{"input", args[0]}});
  Tensor result(DType::kI64, wanted);
  std::fill_n(result.data<int64_t>(), result.elements(), fill);
  const int64_t count = std::min(result.elements(), found.AsTensor().elements());
  std::copy_n(found.AsTensor().data<int64_t>(), count, result.data<int64_t>());
  return {result};
}

/// The same elements with at least `rank` axes.
Value AtLeast(const Decomposer& call, const Value& value, int rank) {
  const Shape& shape = value.AsTensor().shape();
  if (shape.rank() >= rank) return value;
  // numpy puts the elements of a vector into the second axis.
  Shape wanted;
  if (rank > 1 && shape.rank() < 2) wanted.Append(1);
  for (int i = 0; i < shape.rank(); ++i) wanted.Append(shape[i]);
  while (wanted.rank() < rank) wanted.Append(1);
  return call.Reshape(value, wanted);
}

void AddAtLeast(LayerRegistry& registry, int rank) {
  const std::string name = "atleast_" + std::to_string(rank) + "d";
  AddDecomposition(registry,
                   OperatorSchema({"torch." + name, "aten::" + name},
                                  "The same elements with at least " + std::to_string(rank) +
                                      (rank == 1 ? " axis" : " axes"))
                       .Any("input")
                       .Dynamic(),
                   [rank](const Decomposer& call, const Args& args) -> std::vector<Value> {
                     if (!args[0].IsList()) return {AtLeast(call, args[0], rank)};
                     Value::List results;
                     for (const Value& item : args[0].AsList()) {
                       results.push_back(AtLeast(call, item, rank));
                     }
                     return {Value(std::move(results))};
                   });
}

/// A matrix with the elements, read as flat, on a diagonal.
std::vector<Value> DiagFlat(const Decomposer& call, const Args& args) {
  return {call("torch.diag",
               {{"input", call("torch.flatten", {{"input", args[0]}})}, {"diagonal", args[1]}})};
}

}  // namespace
}  // namespace oort

OORT_LAYERS(aten_shape) {
  using namespace oort;
  for (int rank = 1; rank <= 3; ++rank) AddAtLeast(registry, rank);
  AddDecomposition(registry,
                   OperatorSchema({"torch.diagflat", "aten::diagflat"},
                                  "A matrix with the elements, read as flat, on a diagonal")
                       .Tensor("input", kAllDTypes)
                       .Int("offset", 0)
                       .Dynamic(),
                   DiagFlat);
  AddDecomposition(registry,
                   DecompositionSchema({"aten::tensor_split"}, "`torch.tensor_split`",
                                       "*input indices_or_sections dim"),
                   TensorSplit);
  AddDecomposition(registry,
                   DecompositionSchema({"aten::repeat_interleave"},
                                       "`torch.repeat_interleave`; of repeats alone the positions",
                                       "*input repeats dim output_size"),
                   RepeatInterleave);
  AddDecomposition(registry,
                   DecompositionSchema({"aten::view"},
                                       "`Tensor.view`; with a dtype the same bytes as its elements",
                                       "*input size_or_dtype"),
                   ViewDType);
  AddDecomposition(registry,
                   DecompositionSchema({"aten::sum_to_size"},
                                       "Sums over what expanding would repeat", "*input size"),
                   SumToSize);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::pad_sequence"}, "Sequences filled up to the longest and stacked",
                          "sequences batch_first padding_value padding_side"),
      PadSequence);
  AddDecomposition(registry,
                   DecompositionSchema({"aten::as_strided_scatter"},
                                       "input with src where `torch.as_strided` would read",
                                       "*input *src size stride storage_offset"),
                   AsStridedScatter);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::fill_diagonal"}, "input with its main diagonal set to a value",
                          "*input value wrap"),
      FillDiagonal);
  AddDecomposition(
      registry,
      DecompositionSchema({"torch.combinations", "aten::combinations"},
                          "All choices of r elements of a vector", "*input r with_replacement"),
      Combinations);
  AddDecomposition(registry,
                   DecompositionSchema({"aten::nonzero_static"},
                                       "`torch.nonzero`, cut or filled up to `size` rows",
                                       "*input size fill_value"),
                   NonzeroStatic);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::einsum"}, "`torch.einsum` of a list", "equation operands path"),
      EinsumOfList);
  AddAtenForm(registry, {"aten::index", "aten::_unsafe_index"}, {{"Tensor.index", "*input +expr"}});
  AddAtenForm(registry, {"aten::unsafe_split_with_sizes"},
              {{"torch.split", "*tensor split_size_or_sections dim"}}, 1, -1);
  AddAtenForm(registry, {"aten::native_channel_shuffle"}, {{"F.channel_shuffle", "*input groups"}});
  AddAtenForm(registry, {"aten::zero"}, {{"torch.zeros_like", "*input"}});
}
