// SPDX-License-Identifier: MIT
#include <cmath>

#include "core/dispatch.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/reduce_kernels.h"
#include "layers/reduction/reduce_plan.h"

namespace oort {
namespace {

/// Two passes: the mean, then the differences from it.
struct VarianceState {
  double mean = 0;  // the sum until the first pass is over
  Deviations deviations;
};

template <typename T>
struct VarianceOp : ElementOp<VarianceOp<T>> {
  using State = VarianceState;
  static constexpr int kPasses = 2;
  double count;
  const ReduceKernels& kernels;

  VarianceOp(int64_t elements, const ReduceKernels& table)
      : count(static_cast<double>(elements)), kernels(table) {}
  State Start() const { return {}; }
  void Between(State& state, int) const {
    state.mean /= count;
    // The f32 kernel subtracts the mean rounded to f32. The sum of the differences corrects that
    // (Chan, Golub and LeVeque 1983).
    if (std::is_same_v<T, float>) state.mean = static_cast<double>(static_cast<float>(state.mean));
  }
  void Step(State& state, T element, int64_t, int pass) const {
    const double value = ConvertElement<double>(element);
    if (pass == 0) {
      state.mean += value;
    } else {
      const double difference = value - state.mean;
      state.deviations.sum += difference;
      state.deviations.squares += difference * difference;
    }
  }
  void Run(State& state, const T* x, int64_t elements, int64_t index, int pass) const {
    if constexpr (std::is_same_v<T, float>) {
      if (pass == 0) {
        state.mean += kernels.sum(x, elements);
      } else {
        kernels.deviations(x, elements, static_cast<float>(state.mean), state.deviations);
      }
    } else {
      ElementOp<VarianceOp<T>>::Run(state, x, elements, index, pass);
    }
  }
};

class Variance : public PerElementLayer<4> {
 public:
  /// `with_mean` adds the mean as a second output.
  Variance(const LayerInit& init, bool root, bool with_mean)
      : root_(root), with_mean_(with_mean), axes_(init), kernels_(ReduceKernelsFor(init.isa())) {
    if (const Value& value = init.Constant("correction"); !value.IsNone()) {
      correction_ = value.AsFloat();
    } else if (const Value& unbiased = init.Constant("unbiased"); !unbiased.IsNone()) {
      // pnnx writes the correction of torch.var under this name.
      correction_ = unbiased.AsFloat();
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor result = Tensor::Meta(args.tensor(0).dtype(), axes_.Plan(args.shape(0)).output);
    if (with_mean_) return {result, result};
    return {result};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const ReducePlan plan = axes_.Plan(x.shape());
    const double count = static_cast<double>(plan.count);
    const double divisor = std::max(0.0, count - correction_);
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        T* y = outputs[0].AsTensor().data<T>();
        T* means = with_mean_ ? outputs[1].AsTensor().data<T>() : nullptr;
        Reduce(context, plan, x.data<T>(), VarianceOp<T>(plan.count, kernels_),
               [&](int64_t i, const VarianceState& state) {
                 const Deviations& all = state.deviations;
                 double squares = all.squares - all.sum * all.sum / count;
                 if (squares < 0) squares = 0;
                 const double variance = squares / divisor;
                 y[i] = ConvertElement<T>(root_ ? std::sqrt(variance) : variance);
                 if (means != nullptr) means[i] = ConvertElement<T>(state.mean + all.sum / count);
               });
      }
    });
  }

 private:
  bool root_, with_mean_;
  double correction_ = 1;
  ReduceAxes axes_;
  const ReduceKernels& kernels_;
};

LayerCreator CreateVariance(bool root, bool with_mean = false) {
  return [=](const LayerInit& init) { return std::make_unique<Variance>(init, root, with_mean); };
}

OperatorSchema VarianceSchema(const std::string& type, const char* doc) {
  return OperatorSchema({type}, doc)
      .Tensor("input", kFloats)
      .Ints("dim")
      .Nullable()
      .Number("unbiased")
      .Nullable()
      .Bool("keepdim", false)
      .Number("correction")
      .Nullable();
}

}  // namespace
}  // namespace oort

OORT_LAYERS(reduce_variance) {
  for (const bool root : {false, true}) {
    const std::string name = root ? "std" : "var";
    const char* doc = root ? "The standard deviation over some axes, or all."
                           : "The variance over some axes, or all.";
    registry.Add(VarianceSchema("torch." + name, doc), CreateVariance(root));
    registry.Add(VarianceSchema("torch." + name + "_mean", doc).Outputs(2),
                 CreateVariance(root, true));
  }
}
