// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "layers/composite/float_dtypes.h"
#include "layers/linear/dense.h"
#include "layers/linear/weight_arg.h"
#include "layers/linear/wrapping.h"

namespace oort {
namespace {

/// y = x W^T + b over the last axis: shapes.
class LinearLayer : public Layer {
 public:
  explicit LinearLayer(const LayerInit& init)
      : input_(init.Arg("input")), weight_(init, "weight"), bias_(init, "bias") {
    CheckBiasFlag(init);
    const Value& weight = init.Constant(init.Arg("@weight") >= 0 ? "@weight" : "weight");
    if (!weight.IsTensor()) return;
    const Shape& shape = weight.AsTensor().shape();
    CheckWeight(shape);
    CheckRepeated(init, "in_features", {In(shape)});
    CheckRepeated(init, "out_features", {Out(shape)});
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape &input = args.shape(input_), &weight = weight_.shape(args);
    CheckWeight(weight);
    if (input.rank() == 0 || input[input.rank() - 1] != In(weight)) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input whose last axis is " +
                                                   std::to_string(In(weight)) + ", got " +
                                                   input.ToString());
    }
    bias_.CheckShape(args, weight.rank() == 1 ? Shape{} : Shape{Out(weight)});
    Shape output = input;
    if (weight.rank() == 1) {
      output.Erase(output.rank() - 1);
    } else {
      output[output.rank() - 1] = Out(weight);
    }
    output.elements();
    return {Tensor::Meta(args.tensor(input_).dtype(), output)};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const GemmSize size = SizeOf(args);
    cost.flops = 2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) *
                 static_cast<double>(size.k);
    return cost;
  }

 protected:
  // A weight of one axis stands for one output without an axis.
  static int64_t Out(const Shape& weight) { return weight.rank() == 1 ? 1 : weight[0]; }
  static int64_t In(const Shape& weight) { return weight[weight.rank() - 1]; }

  GemmSize SizeOf(const Args& args) const {
    const Shape &input = args.shape(input_), &weight = weight_.shape(args);
    return {input.Product(0, input.rank() - 1), Out(weight), In(weight), false, false};
  }

  int input_;
  AnyWeightArg weight_, bias_;

 private:
  static void CheckWeight(const Shape& weight) {
    if (weight.rank() == 1 || weight.rank() == 2) return;
    throw Error(ErrorCode::kInvalidArgument,
                "expected a weight of rank 1 or 2, got " + weight.ToString());
  }
};

class Linear final : public LinearLayer {
 public:
  explicit Linear(const LayerInit& init)
      : LinearLayer(init),
        f32_weight_(init, "weight"),
        f32_bias_(init, "bias"),
        kernels_(GemmKernelsFor(init.isa())) {
    const Tensor& weight = f32_weight_.constant();
    if (!weight.defined()) return;
    const MatrixSource columns(kernels_, {weight.data<float>(), 1, In(weight.shape())});
    packed_ =
        PackedMatrix(kernels_, GemmSide::kB, Out(weight.shape()), In(weight.shape()), columns);
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    GemmProblem problem;
    problem.size = PackedSize(args);
    const int64_t k = problem.size.k;
    const MatrixSource rows(kernels_, {args.tensor(input_).data<float>(), 1, k});
    const MatrixSource columns(kernels_, {f32_weight_.data(args), 1, k});
    if (problem.size.b_packed) problem.packed = packed_.panels();
    problem.a = &rows;
    problem.b = &columns;
    problem.c = outputs[0].AsTensor().data<float>();
    problem.ldc = problem.size.n;
    problem.column_bias = f32_bias_.data(args);
    Gemm(kernels_, problem, context.threads(), context.workspace<float>());
  }

  size_t Workspace(const Args& args, int threads) const override {
    const int64_t floats = GemmWorkspace(kernels_, PackedSize(args), threads);
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
  }

 private:
  GemmSize PackedSize(const Args& args) const {
    GemmSize size = SizeOf(args);
    size.b_packed = !packed_.empty();
    return size;
  }

  WeightArg f32_weight_, f32_bias_;
  const GemmKernels& kernels_;
  PackedMatrix packed_;
};

/// In any other dtype.
class LinearPlain final : public LinearLayer {
 public:
  using LinearLayer::LinearLayer;

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const GemmSize size = SizeOf(args);
    Tensor& output = outputs[0].AsTensor();
    VisitPlain(output.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      MultiplyPlain<T>(context.threads(), size.m, {args.tensor(input_).data<T>(), size.k},
                       {weight_.given<T>(args), size.k}, size.n, size.k, bias_.given<T>(args),
                       {output.data<T>(), size.n});
    });
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(linear) {
  using namespace oort;
  const char* doc = "x W^T + b over the last axis";
  constexpr DTypeSet kDTypes = kFloats | kPlainDTypes;
  for (const OperatorSchema& schema : {OperatorSchema({"nn.Linear"}, doc)
                                           .Tensor("input", kDTypes)
                                           .Attribute("weight", kDTypes)
                                           .OptionalAttribute("bias", kDTypes)
                                           .Ignored("in_features")
                                           .Ignored("out_features")
                                           .Ignored("bias"),
                                       OperatorSchema({"F.linear"}, doc)
                                           .Tensor("input", kDTypes)
                                           .Tensor("weight", kDTypes)
                                           .OptionalTensor("bias", kDTypes)}) {
    registry.Add(schema, WithFloats(schema, Create<Linear>(), Create<LinearPlain>()));
  }
}
