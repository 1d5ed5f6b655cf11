// SPDX-License-Identifier: MIT
// Operators with a layer of their own on the CPU that are a few others on the GPU.
#include <algorithm>
#include <array>
#include <cmath>

#include "layers/composite/decomposition.h"
#include "layers/reduction/reduce_norm.h"

namespace oort {
namespace {

/// Sums of squares must not be rounded to 16 bits on the way.
void RequireWide(const Tensor& x) {
  if (x.dtype() == DType::kF32 || x.dtype() == DType::kF64) return;
  throw Error(ErrorCode::kUnsupported, "is of " + std::string(Name(x.dtype())));
}

/// beta * input + alpha * (a @ b)
Decomposition DeviceAddmm(int rank) {
  return [rank](const Decomposer& call, const Args& args) -> std::vector<Value> {
    const Shape &a = args.shape(1), &b = args.shape(2);
    if (a.rank() != rank || b.rank() != rank || (rank == 3 && a[0] != b[0])) {
      throw Error(ErrorCode::kInvalidArgument, "expected two operands of rank " +
                                                   std::to_string(rank) + ", got " + a.ToString() +
                                                   " and " + b.ToString());
    }
    const double beta = args[3].AsFloat(), alpha = args[4].AsFloat();
    const Value product = call("torch.matmul", {{"input", args[1]}, {"other", args[2]}});
    const Shape& shape = product.AsTensor().shape();
    if (!(BroadcastShapes(args.shape(0), shape) == shape)) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input that broadcasts to " +
                                                   shape.ToString() + ", got " +
                                                   args.shape(0).ToString());
    }
    // What is in the input does not count, not even NaN.
    if (beta == 0) return {call.Formula("mul(@0,@1)", {product, Value(alpha)})};
    if (alpha == 1 && beta == 1) return {call.Formula("add(@0,@1)", {product, args[0]})};
    return {
        call.Formula("add(mul(@0,@1),mul(@2,@3))", {product, Value(alpha), args[0], Value(beta)})};
  };
}

/// input, dim, unbiased, keepdim, correction
Decomposition DeviceVariance(bool root, bool with_mean) {
  return [=](const Decomposer& call, const Args& args) -> std::vector<Value> {
    RequireWide(args.tensor(0));
    const Value &x = args[0], &dim = args[1];
    // pnnx writes the correction of torch.var as `unbiased`.
    const Value& given = args.Has(4) ? args[4] : args[2];
    const double correction = given.IsNone() ? 1 : given.AsFloat();
    const Value mean = call("torch.mean", {{"input", x}, {"dim", dim}, {"keepdim", Value(true)}});
    const Value squares = call.Formula("square(sub(@0,@1))", {x, mean});
    const Value sum = call("torch.sum", {{"input", squares}, {"dim", dim}, {"keepdim", args[3]}});
    const int64_t results = std::max<int64_t>(1, sum.AsTensor().elements());
    const auto count = static_cast<double>(x.AsTensor().elements() / results);
    const Value divisor(std::max(0.0, count - correction));
    std::vector<Value> outputs = {
        call.Formula(root ? "sqrt(div(@0,@1))" : "div(@0,@1)", {sum, divisor})};
    if (with_mean) outputs.push_back(call.Reshape(mean, sum.AsTensor().shape()));
    return outputs;
  };
}

/// (sum of |x|^p)^(1/p)
Value DeviceNorm(const Decomposer& call, const Value& x, const Value& power, const Value& dim,
                 const Value& keepdim) {
  RequireWide(x.AsTensor());
  const double p = NormPower(power);
  const auto reduce = [&](const char* type, const std::string& formula) {
    return call(type, {{"input", call.Formula(formula, {x})}, {"dim", dim}, {"keepdim", keepdim}});
  };
  if (p == 2) return call.Formula("sqrt(@0)", {reduce("torch.sum", "square(@0)")});
  if (p == 1) return reduce("torch.sum", "abs(@0)");
  if (std::isinf(p)) return reduce(p > 0 ? "torch.amax" : "torch.amin", "abs(@0)");
  if (p == 0) throw Error(ErrorCode::kUnsupported, "counts, which the GPU does not");
  const Value powers = call.Formula("pow(abs(@0),@1)", {x, Value(p)});
  const Value sum = call("torch.sum", {{"input", powers}, {"dim", dim}, {"keepdim", keepdim}});
  return call.Formula("pow(@0,@1)", {sum, Value(1 / p)});
}

/// input, p, dim, keepdim, dtype
std::vector<Value> DeviceTorchNorm(const Decomposer& call, const Args& args) {
  if (args.Has(4)) throw Error(ErrorCode::kUnsupported, "changes the dtype");
  return {DeviceNorm(call, args[0], args[1], args[2], args[3])};
}

/// input, p, dim, eps
std::vector<Value> DeviceNormalize(const Decomposer& call, const Args& args) {
  const Value norm = DeviceNorm(call, args[0], args[1], args[2], Value(true));
  return {call.Formula("div(@0,maximum(@1,@2))", {args[0], norm, args[3]})};
}

/// x1, x2, p, eps, keepdim
std::vector<Value> DevicePairwiseDistance(const Decomposer& call, const Args& args) {
  const Value difference = call.Formula("add(sub(@0,@1),@2)", {args[0], args[1], args[3]});
  const std::array<int64_t, 1> last = {-1};
  return {DeviceNorm(call, difference, args[2], Value::Ints(last), args[4])};
}

/// input, dim, keepdim
std::vector<Value> DeviceLogSumExp(const Decomposer& call, const Args& args) {
  RequireWide(args.tensor(0));
  const Value &x = args[0], &dim = args[1];
  const Value most = call("torch.amax", {{"input", x}, {"dim", dim}, {"keepdim", Value(true)}});
  // What is infinite has no difference from itself.
  const Value base = call.Formula("where(isinf(@0),@1,@0)", {most, Value(0.0)});
  const Value exps = call.Formula("exp(sub(@0,@1))", {x, base});
  const Value sum = call("torch.sum", {{"input", exps}, {"dim", dim}, {"keepdim", args[2]}});
  const Value added = call.Reshape(base, sum.AsTensor().shape());
  return {call.Formula("add(log(@0),@1)", {sum, added})};
}

/// input, size, alpha, beta, k: the mean of squares over channels is a pool of them.
std::vector<Value> DeviceLocalResponseNorm(const Decomposer& call, const Args& args) {
  const Tensor& x = args.tensor(0);
  RequireWide(x);
  if (x.rank() < 3) throw Error(ErrorCode::kUnsupported, "has less than three axes");
  const int64_t size = args[1].AsInt(), channels = x.dim(1);
  const int64_t rest = x.shape().Product(2, x.rank());
  const Value squares =
      call.Reshape(call.Formula("square(@0)", {args[0]}), Shape{x.dim(0), 1, channels, rest, 1});
  const std::array<int64_t, 6> pad = {0, 0, 0, 0, size / 2, (size - 1) / 2};
  const Value padded = call("F.pad", {{"input", squares}, {"pad", Value::Ints(pad)}});
  const std::array<int64_t, 3> window = {size, 1, 1}, step = {1, 1, 1};
  const Value means = call(
      "F.avg_pool3d",
      {{"input", padded}, {"kernel_size", Value::Ints(window)}, {"stride", Value::Ints(step)}});
  return {call.Formula("div(@0,pow(add(mul(@1,@2),@3),@4))",
                       {args[0], call.Reshape(means, x.shape()), args[2], args[4], args[3]})};
}

/// condition, input, other
std::vector<Value> DeviceWhere(const Decomposer& call, const Args& args) {
  if (!args.Has(1) || !args.Has(2)) {
    throw Error(ErrorCode::kUnsupported, "gives what is not known before it runs");
  }
  return {call.Formula("where(@0,@1,@2)", {args[0], args[1], args[2]})};
}

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(device_decompositions) {
  using namespace oort;
  const auto add = [&](const std::vector<std::string>& types, Decomposition decomposition) {
    registry.AddDevice(types, DeviceType::kCuda, CreateDecomposed(std::move(decomposition)));
  };
  add({"torch.addmm"}, DeviceAddmm(2));
  add({"torch.baddbmm"}, DeviceAddmm(3));
  add({"torch.norm"}, DeviceTorchNorm);
  add({"F.normalize"}, DeviceNormalize);
  add({"F.pairwise_distance", "nn.PairwiseDistance"}, DevicePairwiseDistance);
  add({"nn.LocalResponseNorm", "F.local_response_norm"}, DeviceLocalResponseNorm);
  add({"aten::where"}, DeviceWhere);
  add({"torch.logsumexp"}, DeviceLogSumExp);
  for (const bool root : {false, true}) {
    const std::string name = root ? "torch.std" : "torch.var";
    add({name}, DeviceVariance(root, false));
    add({name + "_mean"}, DeviceVariance(root, true));
  }
}
