// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "layers/composite/float_dtypes.h"
#include "layers/linear/dense.h"
#include "layers/linear/weight_arg.h"

namespace oort {
namespace {

/// y = x W^T + b over the last axis, in f32 or f64.
template <typename T>
class Linear final : public Layer {
 public:
  explicit Linear(const LayerInit& init)
      : input_(init.Arg("input")),
        weight_(init, "weight"),
        bias_(init, "bias"),
        kernels_(GemmKernelsFor(init.isa())) {
    const Tensor& weight = weight_.constant();
    CheckBiasFlag(init);
    if (!weight.defined()) return;
    CheckWeight(weight.shape());
    CheckRepeated(init, "in_features", {In(weight.shape())});
    CheckRepeated(init, "out_features", {Out(weight.shape())});
    if constexpr (kBlocked) {
      const MatrixSource columns(kernels_, {weight.data<T>(), 1, In(weight.shape())});
      packed_ =
          PackedMatrix(kernels_, GemmSide::kB, Out(weight.shape()), In(weight.shape()), columns);
    }
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
    return {Tensor::Meta(kDTypeOf<T>, output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const GemmSize size = SizeOf(args);
    const T *x = args.tensor(input_).data<T>(), *weight = weight_.data(args);
    T* y = outputs[0].AsTensor().data<T>();
    if constexpr (kBlocked) {
      const MatrixSource rows(kernels_, {x, 1, size.k}), columns(kernels_, {weight, 1, size.k});
      GemmProblem problem;
      problem.size = size;
      if (size.b_packed) problem.packed = packed_.panels();
      problem.a = &rows;
      problem.b = &columns;
      problem.c = y;
      problem.ldc = size.n;
      problem.column_bias = bias_.data(args);
      Gemm(kernels_, problem, context.threads(), context.workspace<float>());
    } else {
      MultiplyF64(context.threads(), size.m, {x, size.k}, {weight, size.k}, size.n, size.k,
                  bias_.data(args), {y, size.n});
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    if (!kBlocked) return 0;
    const int64_t floats = GemmWorkspace(kernels_, SizeOf(args), threads);
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const GemmSize size = SizeOf(args);
    cost.flops = 2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) *
                 static_cast<double>(size.k);
    return cost;
  }

 private:
  static constexpr bool kBlocked = std::is_same_v<T, float>;

  // A weight of one axis stands for one output without an axis.
  static int64_t Out(const Shape& weight) { return weight.rank() == 1 ? 1 : weight[0]; }
  static int64_t In(const Shape& weight) { return weight[weight.rank() - 1]; }

  static void CheckWeight(const Shape& weight) {
    if (weight.rank() == 1 || weight.rank() == 2) return;
    throw Error(ErrorCode::kInvalidArgument,
                "expected a weight of rank 1 or 2, got " + weight.ToString());
  }

  GemmSize SizeOf(const Args& args) const {
    const Shape &input = args.shape(input_), &weight = weight_.shape(args);
    return {input.Product(0, input.rank() - 1), Out(weight), In(weight), false, !packed_.empty()};
  }

  int input_;
  WeightArgOf<T> weight_, bias_;
  const GemmKernels& kernels_;
  PackedMatrix packed_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(linear) {
  using namespace oort;
  const char* doc = "x W^T + b over the last axis";
  for (const OperatorSchema& schema : {OperatorSchema({"nn.Linear"}, doc)
                                           .Tensor("input", kFloats)
                                           .Attribute("weight")
                                           .OptionalAttribute("bias")
                                           .Ignored("in_features")
                                           .Ignored("out_features")
                                           .Ignored("bias"),
                                       OperatorSchema({"F.linear"}, doc)
                                           .Tensor("input", kFloats)
                                           .Tensor("weight", kFloats)
                                           .OptionalTensor("bias", kFloats)}) {
    registry.Add(schema, WithFloats(schema, Create<Linear<float>>(), Create<Linear<double>>()));
  }
}
