// SPDX-License-Identifier: MIT
#include <cmath>

#include "core/dispatch.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/reduce_plan.h"
#include "layers/softmax/softmax_kernels.h"

namespace oort {
namespace {

/// Subtracts the maximum first, so that no exponential overflows.
template <typename T>
struct LogSumExpOp : ElementOp<LogSumExpOp<T>> {
  struct State {
    double max = -INFINITY, sum = 0;
  };
  static constexpr int kPasses = 2;
  const SoftmaxKernels& kernels;

  explicit LogSumExpOp(const SoftmaxKernels& table) : kernels(table) {}
  State Start() const { return {}; }
  void Step(State& state, T element, int64_t, int pass) const {
    const double value = ConvertElement<double>(element);
    if (pass == 0) {
      if (value > state.max || value != value) state.max = value;
    } else if (!std::isinf(state.max)) {
      state.sum += std::exp(value - state.max);
    }
  }
  void Run(State& state, const T* x, int64_t count, int64_t index, int pass) const {
    if constexpr (std::is_same_v<T, float>) {
      if (pass == 1) {
        if (!std::isinf(state.max)) {
          state.sum += kernels.sum_exp(x, count, static_cast<float>(state.max));
        }
        return;
      }
      const auto max = static_cast<double>(kernels.row_max(x, count, 1));
      if (max > state.max || max != max) state.max = max;
    } else {
      ElementOp<LogSumExpOp<T>>::Run(state, x, count, index, pass);
    }
  }
  /// An infinite maximum is the result: it cannot be subtracted, because inf - inf is NaN.
  static double Result(const State& state) {
    return std::isinf(state.max) ? state.max : std::log(state.sum) + state.max;
  }
};

class LogSumExp : public PerElementLayer<3> {
 public:
  explicit LogSumExp(const LayerInit& init)
      : axes_(init), kernels_(SoftmaxKernelsFor(init.isa())) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    return {
        Tensor::Meta(IsFloat(x.dtype()) ? x.dtype() : DType::kF32, axes_.Plan(x.shape()).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    const Tensor x = args.tensor(0).To(output.dtype());
    const ReducePlan plan = axes_.Plan(x.shape());
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        using Op = LogSumExpOp<T>;
        T* y = output.data<T>();
        Reduce(context, plan, x.data<T>(), Op(kernels_),
               [&](int64_t i, const typename Op::State& state) {
                 y[i] = ConvertElement<T>(Op::Result(state));
               });
      }
    });
  }

 private:
  ReduceAxes axes_;
  const SoftmaxKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(logsumexp) {
  registry.Add(OperatorSchema({"torch.logsumexp"}, "log(sum of exp(x)) over some axes.")
                   .Tensor("input", kReals)
                   .Ints("dim")
                   .Nullable()
                   .Bool("keepdim", false),
               Create<LogSumExp>());
}
