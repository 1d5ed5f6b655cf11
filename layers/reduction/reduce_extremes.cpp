// SPDX-License-Identifier: MIT
#include <limits>

#include "core/dispatch.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/device_reduce.h"
#include "layers/reduction/reduce_kernels.h"
#include "layers/reduction/reduce_plan.h"

namespace oort {
namespace {

/// What the largest or smallest of no elements is.
template <typename Wide, bool kMax>
constexpr Wide Worst() {
  using Limits = std::numeric_limits<Wide>;
  if constexpr (Limits::has_infinity) {
    return kMax ? -Limits::infinity() : Limits::infinity();
  } else {
    return kMax ? Limits::lowest() : Limits::max();
  }
}

template <typename T>
using Comparable = std::conditional_t<kIsHalf<T>, float, T>;

/// Largest (smallest) element and its first position; the first NaN beats everything.
template <typename T, bool kMax>
struct ArgOp : ElementOp<ArgOp<T, kMax>> {
  struct State {
    Comparable<T> best;
    int64_t index;
  };
  State Start() const { return {Worst<Comparable<T>, kMax>(), -1}; }
  void Step(State& state, T element, int64_t index, int) const {
    const auto value = static_cast<Comparable<T>>(element);
    const bool better = kMax ? value > state.best : value < state.best;
    // The first element is taken even if it is no better than nothing, for example -inf.
    if (better || state.index < 0 || (value != value && state.best == state.best)) {
      state = {value, index};
    }
  }
};

template <typename T, bool kMax>
struct ExtremeOp : ElementOp<ExtremeOp<T, kMax>> {
  using State = Comparable<T>;
  State Start() const { return Worst<State, kMax>(); }
  void Step(State& state, T element, int64_t, int) const {
    const auto value = static_cast<State>(element);
    if ((kMax ? value > state : value < state) || value != value) state = value;
  }
};

template <bool kMax>
struct ExtremeF32Op {
  using State = float;
  static constexpr int kPasses = 1;
  const ReduceKernels& kernels;
  State Start() const { return Worst<float, kMax>(); }
  void Between(State&, int) const {}
  void Run(State& state, const float* x, int64_t count, int64_t, int pass) const {
    const float value = kMax ? kernels.max(x, count) : kernels.min(x, count);
    ExtremeOp<float, kMax>().Step(state, value, 0, pass);
  }
  void Block(State* states, const Columns<float>& columns, int) const {
    const RowBlock block = {columns.first, columns.rows, columns.step, columns.width};
    if constexpr (kMax) {
      kernels.max_columns(block, states);
    } else {
      kernels.min_columns(block, states);
    }
  }
};

enum class Result { kValues, kValuesAndIndices, kIndices };

template <bool kMax>
class Extreme : public PerElementLayer<1> {
 public:
  Extreme(const LayerInit& init, Result result)
      : result_(result), axes_(init), kernels_(ReduceKernelsFor(init.isa())) {
    if (result == Result::kValuesAndIndices && init.outputs().size() < 2) {
      result_ = Result::kValues;
    }
    if (result_ != Result::kValues && axes_.dims.size() > 1) {
      throw Error(ErrorCode::kInvalidArgument, "positions need a single axis, or none");
    }
    if (result_ == Result::kValuesAndIndices && axes_.dims.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "two outputs need an axis");
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    const ReducePlan plan = axes_.Plan(x.shape());
    RequireElements(plan, x.shape());
    std::vector<Value> metas;
    if (result_ != Result::kIndices) metas.emplace_back(Tensor::Meta(x.dtype(), plan.output));
    if (result_ != Result::kValues) metas.emplace_back(Tensor::Meta(DType::kI64, plan.output));
    return metas;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const ReducePlan plan = axes_.Plan(x.shape());
    if (context.stream() != nullptr) {
      Tensor* const values = result_ == Result::kIndices ? nullptr : &outputs[0].AsTensor();
      Tensor* const indices = result_ == Result::kValues ? nullptr : &outputs.back().AsTensor();
      ReduceOnDevice(*context.stream(), plan, kMax ? Reduction::kMax : Reduction::kMin, x, values,
                     indices);
      return;
    }
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsComplex<T>) {
        T* values = result_ == Result::kIndices ? nullptr : outputs[0].AsTensor().data<T>();
        if (result_ == Result::kValues) return Values(context, plan, x.data<T>(), values);
        int64_t* indices = outputs.back().AsTensor().data<int64_t>();
        using Op = ArgOp<T, kMax>;
        Reduce(context, plan, x.data<T>(), Op{}, [&](int64_t i, const typename Op::State& state) {
          indices[i] = state.index;
          if (values != nullptr) values[i] = static_cast<T>(state.best);
        });
      }
    });
  }

 private:
  template <typename T>
  void Values(const Context& context, const ReducePlan& plan, const T* x, T* values) const {
    const auto emit = [&](int64_t i, Comparable<T> state) { values[i] = static_cast<T>(state); };
    if constexpr (std::is_same_v<T, float>) {
      Reduce(context, plan, x, ExtremeF32Op<kMax>{kernels_}, emit);
    } else {
      Reduce(context, plan, x, ExtremeOp<T, kMax>{}, emit);
    }
  }

  Result result_;
  ReduceAxes axes_;
  const ReduceKernels& kernels_;
};

template <bool kMax>
LayerCreator CreateExtreme(Result result) {
  return [result](const LayerInit& init) { return std::make_unique<Extreme<kMax>>(init, result); };
}

OperatorSchema ExtremeSchema(const char* type, const char* doc, DTypeSet dtypes) {
  return OperatorSchema({type}, doc)
      .Tensor("input", dtypes)
      .Ints("dim")
      .Nullable()
      .Bool("keepdim", false);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(reduce_extremes) {
  registry.Add(ExtremeSchema("torch.amax", "The maximum over some axes, or all.", kReals),
               CreateExtreme<true>(Result::kValues));
  registry.Add(ExtremeSchema("torch.amin", "The minimum over some axes, or all.", kReals),
               CreateExtreme<false>(Result::kValues));
  registry.Add(ExtremeSchema("torch.max",
                             "The maximum over all axes, or along one with its position.", kReals)
                   .Outputs(1, 2),
               CreateExtreme<true>(Result::kValuesAndIndices));
  registry.Add(ExtremeSchema("torch.min",
                             "The minimum over all axes, or along one with its position.", kReals)
                   .Outputs(1, 2),
               CreateExtreme<false>(Result::kValuesAndIndices));
  registry.Add(
      ExtremeSchema("torch.argmax", "The first position of the maximum.", kFloats | kIntegers),
      CreateExtreme<true>(Result::kIndices));
  registry.Add(
      ExtremeSchema("torch.argmin", "The first position of the minimum.", kFloats | kIntegers),
      CreateExtreme<false>(Result::kIndices));
}
