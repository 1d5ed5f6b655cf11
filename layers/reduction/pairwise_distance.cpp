// SPDX-License-Identifier: MIT
#include "core/dispatch.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/reduce_norm.h"
#include "layers/shape/strided.h"

namespace oort {
namespace {

/// The p-norm of x1 - x2 + eps over the last axis.
class PairwiseDistance final : public PerElementLayer<3> {
 public:
  explicit PairwiseDistance(const LayerInit& init)
      : p_(NormPower(init.Constant("p"))),
        eps_(init.Float("eps")),
        keepdim_(init.Bool("keepdim")),
        kernels_(ReduceKernelsFor(init.isa())) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape pairs = Pairs(args);
    if (pairs.rank() == 0) {
      throw Error(ErrorCode::kInvalidArgument, "expected vectors, got two numbers");
    }
    const ReducePlan plan = PlanReduction(pairs, {-1}, keepdim_);
    if (std::isinf(p_)) RequireElements(plan, pairs);
    // eps makes floats of integers.
    const DType dtype = PromoteTypes(args.tensor(0).dtype(), args.tensor(1).dtype());
    return {Tensor::Meta(IsFloat(dtype) ? dtype : DType::kF32, plan.output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    const DType dtype = PromoteTypes(args.tensor(0).dtype(), args.tensor(1).dtype());
    const Tensor a = args.tensor(0).To(dtype), b = args.tensor(1).To(dtype);
    const Shape pairs = Pairs(args);
    const Strided x = Strided(a.shape()).Broadcast(pairs), y = Strided(b.shape()).Broadcast(pairs);
    VisitDType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsComplex<T> && !std::is_same_v<T, bool>) {
        using Out = std::conditional_t<std::is_integral_v<T>, float, T>;
        const int64_t length = pairs[pairs.rank() - 1];
        context.ParallelFor(
            output.elements(), 16384 / (length + 1) + 1, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                output.data<Out>()[i] = ConvertElement<Out>(
                    Distance(a.data<T>() + RowOffset(x, i), x[x.rank() - 1].stride,
                             b.data<T>() + RowOffset(y, i), y[y.rank() - 1].stride, length));
              }
            });
      }
    });
  }

 private:
  static Shape Pairs(const Args& args) { return BroadcastShapes(args.shape(0), args.shape(1)); }

  /// Where row `index` of a view begins.
  static int64_t RowOffset(const Strided& view, int64_t index) {
    int64_t offset = 0;
    for (int i = view.rank() - 1; i-- > 0;) {
      offset += index % view[i].extent * view[i].stride;
      index /= view[i].extent;
    }
    return offset;
  }

  /// Differences of integers wrap around.
  template <typename Real, typename T>
  static Real Difference(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<Real>(static_cast<T>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y)));
    } else {
      return static_cast<Real>(x) - static_cast<Real>(y);
    }
  }

  template <typename T>
  double Distance(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t length) const {
    using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const NormOp<Real> op(p_, kernels_);
    double state = op.Start();
    for (int64_t i = 0; i < length; ++i) {
      const Real difference = Difference<Real>(x[i * x_step], y[i * y_step]);
      op.Step(state, difference + static_cast<Real>(eps_), i, 0);
    }
    return op.Finish(state);
  }

  double p_, eps_;
  bool keepdim_;
  const ReduceKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(pairwise_distance) {
  using namespace oort;
  registry.Add(OperatorSchema({"F.pairwise_distance", "nn.PairwiseDistance"},
                              "The p-norm of x1 - x2 + eps over the last axis")
                   .Tensor("x1", kFloats | kIntegers)
                   .Tensor("x2", kFloats | kIntegers)
                   .Any("p", Value(2))
                   .Float("eps", 1e-6)
                   .Bool("keepdim", false),
               Create<PairwiseDistance>());
}
