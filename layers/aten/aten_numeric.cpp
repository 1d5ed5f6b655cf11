// SPDX-License-Identifier: MIT
// Integrals, statistics and polynomials of ATen that are a few calls of operators that pnnx names.
#include <algorithm>
#include <cmath>

#include "core/dispatch.h"
#include "layers/composite/decomposition.h"

namespace oort {
namespace {

Value Narrowed(const Decomposer& call, const Value& x, int axis, int64_t start, int64_t length) {
  return call(
      "torch.narrow",
      {{"input", x}, {"dim", axis}, {"start", start}, {"length", std::max<int64_t>(0, length)}});
}

/// Neighbours along an axis, as `text` of the earlier and the later ones.
Value OfNeighbours(const Decomposer& call, const char* text, const Value& x, int axis) {
  const int64_t length = x.AsTensor().shape()[axis];
  return call.Formula(text, {Narrowed(call, x, axis, 0, length - 1),
                             Narrowed(call, x, axis, std::min<int64_t>(1, length), length - 1)});
}

/// The areas between neighbours; the step is one number, or the differences of coordinates.
Value Trapezoids(const Decomposer& call, const Args& args, int axis) {
  const Value sums = OfNeighbours(call, "add(@0,@1)", args[0], axis);
  Value step = ValueOr(args, 1, 1.0);
  if (step.IsTensor()) {
    const Shape& shape = args.shape(0);
    if (step.AsTensor().rank() == 1) {
      Shape along;
      for (int i = 0; i < shape.rank(); ++i) along.Append(i == axis ? step.AsTensor().dim(0) : 1);
      step = call.Reshape(step, along);
    }
    const int own = axis - shape.rank() + step.AsTensor().rank();
    if (own < 0 || step.AsTensor().shape()[own] != shape[axis]) {
      throw Error(ErrorCode::kInvalidArgument, "expected as many coordinates as elements, got " +
                                                   step.AsTensor().ToString() + " for " +
                                                   args.tensor(0).ToString());
    }
    step = OfNeighbours(call, "sub(@1,@0)", step, own);
  }
  return call.Formula("div(mul(@0,@1),2.0)", {sums, step});
}

/// y, x or dx, dim; without coordinates dim may stand second.
int TrapezoidAxis(const Args& args) {
  return NormalizeAxis(ValueOr(args, 2, -1).AsInt(), args.tensor(0).rank());
}

std::vector<Value> Trapezoid(const Decomposer& call, const Args& args) {
  const int axis = TrapezoidAxis(args);
  return {call("torch.sum",
               {{"input", Trapezoids(call, args, axis)}, {"dim", Value(Value::List{axis})}})};
}

std::vector<Value> CumulativeTrapezoid(const Decomposer& call, const Args& args) {
  const int axis = TrapezoidAxis(args);
  return {call("torch.cumsum", {{"input", Trapezoids(call, args, axis)}, {"dim", axis}})};
}

/// Central differences along one axis, and those of two neighbours at its ends.
Value GradientAlong(const Decomposer& call, const Value& x, int axis, double step) {
  const int64_t length = x.AsTensor().shape()[axis];
  if (length < 2) throw Error(ErrorCode::kInvalidArgument, "expected at least 2 elements an axis");
  const auto difference = [&](int64_t from, int64_t count, int64_t apart) {
    return call.Formula("div(sub(@1,@0),@2)", {Narrowed(call, x, axis, from, count),
                                               Narrowed(call, x, axis, from + apart, count),
                                               step * static_cast<double>(apart)});
  };
  Value::List parts{difference(0, 1, 1)};
  if (length > 2) parts.push_back(difference(0, length - 2, 2));
  parts.push_back(difference(length - 2, 1, 1));
  return call("torch.cat", {{"", Value(std::move(parts))}, {"dim", axis}});
}

/// Steps between elements, one or one for each axis; or none at all, and then the axes come second.
std::vector<Value> Gradient(const Decomposer& call, const Args& args) {
  const bool spaced = args.inputs().size() > 3;
  const Value spacing = spaced ? args[1] : Value(), dim = args[spaced ? 2 : 1];
  const Value order = args[spaced ? 3 : 2];
  const bool plain = !spacing.IsTensor() && (!spacing.IsList() || spacing.AsList().empty() ||
                                             !spacing.AsList()[0].IsTensor());
  if (!plain || (!order.IsNone() && order.AsInt() != 1)) {
    throw Error(ErrorCode::kUnsupported, "takes steps of one length and edge_order 1");
  }
  std::vector<int64_t> axes;
  if (!dim.IsNone()) axes = dim.AsInts();
  for (int i = 0; dim.IsNone() && i < args.tensor(0).rank(); ++i) axes.push_back(i);
  std::vector<double> steps = spacing.IsNone() ? std::vector<double>{1} : spacing.AsFloats();
  if (steps.size() == 1) steps.resize(axes.size(), steps[0]);
  if (steps.size() != axes.size()) {
    throw Error(ErrorCode::kInvalidArgument, "expected a step for each axis");
  }
  Value::List results;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = NormalizeAxis(axes[i], args.tensor(0).rank());
    results.push_back(GradientAlong(call, args[0], axis, steps[i]));
  }
  return {Value(std::move(results))};
}

/// Rows are variables, columns observations, repeated and weighted.
Value Covariance(const Decomposer& call, const Value& input, double correction,
                 const Value& repeats, const Value& weights) {
  const Tensor& x = input.AsTensor();
  if (x.rank() > 2) throw Error(ErrorCode::kInvalidArgument, "expected a rank of at most 2");
  const bool vector = x.rank() < 2;
  const Value rows = call.Reshape(input, vector ? Shape{1, x.elements()} : x.shape());
  Value weight;
  if (!repeats.IsNone()) weight = repeats;
  if (!weights.IsNone()) {
    weight = weight.IsNone() ? weights : call.Formula("mul(@0,@1)", {weights, repeats});
  }
  Value mean, divisor;
  if (weight.IsNone()) {
    mean = call("torch.mean", {{"input", rows}, {"dim", Value(Value::List{1})}, {"keepdim", true}});
    divisor = std::max(0.0, static_cast<double>(rows.AsTensor().dim(1)) - correction);
  } else {
    const Value total = call("torch.sum", {{"input", weight}});
    const Value sum = call("torch.sum", {{"input", call.Formula("mul(@0,@1)", {rows, weight})},
                                         {"dim", Value(Value::List{1})},
                                         {"keepdim", true}});
    mean = call.Formula("div(@0,@1)", {sum, total});
    Value lost = correction;
    if (!weights.IsNone() && correction != 0) {
      const Value squares =
          call("torch.sum", {{"input", call.Formula("mul(@0,@1)", {weight, weights})}});
      lost = call.Formula("mul(@2,div(@0,@1))", {squares, total, correction});
    }
    divisor = call.Formula("clamp(sub(@0,@1),0,None)", {total, lost});
  }
  const Value centred = call.Formula("sub(@0,@1)", {rows, mean});
  const Value right = weight.IsNone() ? centred : call.Formula("mul(@0,@1)", {centred, weight});
  const Value product =
      call("torch.matmul", {{"input", centred}, {"other", call("torch.t", {{"input", right}})}});
  const Value result = call.Formula("div(@0,@1)", {product, divisor});
  return vector ? call.Reshape(result, Shape{}) : result;
}

std::vector<Value> Cov(const Decomposer& call, const Args& args) {
  return {Covariance(call, args[0], ValueOr(args, 1, 1).AsFloat(), args[2], args[3])};
}

/// The covariances over the roots of the variances, within -1 and 1.
std::vector<Value> Corrcoef(const Decomposer& call, const Args& args) {
  const Value of = Covariance(call, args[0], 1, Value(), Value());
  if (of.AsTensor().rank() == 0) return {call.Formula("div(@0,@0)", {of})};
  const Value root = call.Formula("sqrt(@0)", {call("torch.diag", {{"input", of}})});
  const Value column = call.Reshape(root, {root.AsTensor().elements(), 1});
  return {call.Formula("clamp(div(div(@0,@1),@2),-1,1)", {of, column, root})};
}

std::vector<Value> Dist(const Decomposer& call, const Args& args) {
  return {call("torch.norm", {{"input", call.Formula("sub(@0,@1)", {args[0], args[1]})},
                              {"p", ValueOr(args, 2, 2)}})};
}

/// Powers 0 to N-1 of each element, or from N-1 down.
std::vector<Value> Vander(const Decomposer& call, const Args& args, bool rising) {
  const Shape& shape = args.shape(0);
  if (shape.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "expected at least a vector");
  const int64_t count = ValueOr(args, 1, shape[shape.rank() - 1]).AsInt();
  if (count < 0) throw Error(ErrorCode::kInvalidArgument, "expected N of at least 0");
  Shape column = shape;
  column.Append(1);
  const Value powers = call("torch.arange", {{"start", rising ? int64_t{0} : count - 1},
                                             {"end", rising ? count : int64_t{-1}},
                                             {"step", rising ? 1 : -1}});
  return {call.Formula("pow(@0,@1)", {call.Reshape(args[0], column), powers})};
}

std::vector<Value> Vecdot(const Decomposer& call, const Args& args) {
  const Value left =
      IsComplex(args.tensor(0).dtype()) ? call("torch.conj", {{"input", args[0]}}) : args[0];
  return {call("torch.sum", {{"input", call.Formula("mul(@0,@1)", {left, args[1]})},
                             {"dim", Value(Value::List{ValueOr(args, 2, -1)})}})};
}

/// The sum of conj(a) * b.
std::vector<Value> Vdot(const Decomposer& call, const Args& args) {
  const bool complex = IsComplex(args.tensor(0).dtype());
  const Value left = complex ? call("torch.conj", {{"input", args[0]}}) : args[0];
  return {call("aten::dot", {{"input", left}, {"tensor", args[1]}})};
}

/// mantissa · 2^exponent, the mantissa in 0.5…1.
std::vector<Value> Frexp(const Decomposer& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  if (!call.computes()) {
    return {Tensor::Meta(x.dtype(), x.shape()), Tensor::Meta(DType::kI32, x.shape())};
  }
  Tensor mantissa(x.dtype(), x.shape()), exponent(DType::kI32, x.shape());
  VisitDType(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
      for (int64_t i = 0; i < x.elements(); ++i) {
        const auto value = ConvertElement<double>(x.data<T>()[i]);
        int power = 0;
        mantissa.data<T>()[i] = ConvertElement<T>(std::frexp(value, &power));
        exponent.data<int32_t>()[i] = std::isfinite(value) ? power : 0;
      }
    }
  });
  return {mantissa, exponent};
}

std::vector<Value> FakeQuantizePerChannel(const Decomposer& call, const Args& args) {
  const Shape& shape = args.shape(0);
  const int axis = NormalizeAxis(args[3].AsInt(), shape.rank());
  Shape along;
  for (int i = 0; i < shape.rank(); ++i) along.Append(i == axis ? shape[i] : 1);
  return {call.Formula(
      "mul(sub(clamp(add(round(mul(@0,div(1.0,@1))),@2),@3,@4),@2),@1)",
      {args[0], call.Reshape(args[1], along), call.Reshape(args[2], along), args[4], args[5]})};
}

std::vector<Value> IntegerProduct(const Decomposer& call, const Args& args) {
  const auto wide = [&](int i) {
    return call("Tensor.to", {{"input", args[i]}, {"dtype", "torch.int"}});
  };
  return {call("torch.matmul", {{"input", wide(0)}, {"other", wide(1)}})};
}

}  // namespace
}  // namespace oort

OORT_LAYERS(aten_numeric) {
  using namespace oort;
  AddDecomposition(registry,
                   DecompositionSchema({"torch.vdot", "aten::vdot"},
                                       "The sum of conj(a) * b of two vectors", "*input *other"),
                   Vdot);
  AddDecomposition(
      registry,
      DecompositionSchema({"torch.trapezoid", "aten::trapezoid", "aten::trapz"},
                          "The integral along an axis by the trapezoidal rule", "*y x_or_dx dim"),
      Trapezoid);
  AddDecomposition(registry,
                   DecompositionSchema({"torch.cumulative_trapezoid", "aten::cumulative_trapezoid"},
                                       "The integral up to each element by the trapezoidal rule",
                                       "*y x_or_dx dim"),
                   CumulativeTrapezoid);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::gradient"}, "Central differences along some axes, or all",
                          "*input spacing dim edge_order", kFloats),
      Gradient);
  AddDecomposition(
      registry,
      DecompositionSchema({"torch.cov", "aten::cov"}, "The covariances of the rows of a matrix",
                          "*input correction ?fweights ?aweights"),
      Cov);
  AddDecomposition(registry,
                   DecompositionSchema({"torch.corrcoef", "aten::corrcoef"},
                                       "The correlations of the rows of a matrix", "*input"),
                   Corrcoef);
  AddDecomposition(registry,
                   DecompositionSchema({"torch.dist", "aten::dist"}, "The p-norm of input - other",
                                       "*input *other p"),
                   Dist);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::linalg_vander"}, "The powers 0 to N-1 of each element",
                          "*input N"),
      [](const Decomposer& call, const Args& args) { return Vander(call, args, true); });
  AddDecomposition(
      registry,
      DecompositionSchema({"torch.vander", "aten::vander"},
                          "The powers of each element of a vector", "*input N increasing"),
      [](const Decomposer& call, const Args& args) {
        return Vander(call, args, ValueOr(args, 2, false).AsBool());
      });
  AddDecomposition(registry,
                   DecompositionSchema({"aten::linalg_vecdot"},
                                       "The sum of conj(x) * y along an axis", "*input *other dim"),
                   Vecdot);
  AddDecomposition(registry,
                   DecompositionSchema({"torch.frexp", "aten::frexp"},
                                       "Mantissas and exponents of two", "*input", kFloats)
                       .Outputs(2),
                   Frexp);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::fake_quantize_per_channel_affine"},
                          "What quantizing and back leaves, with a scale for each channel",
                          "*input *scale *zero_point axis quant_min quant_max"),
      FakeQuantizePerChannel);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::_int_mm"}, "The product of two matrices of i8 in i32",
                          "*input *mat2", DTypeSet(DType::kI8)),
      IntegerProduct);
}
