// SPDX-License-Identifier: MIT
#include <array>

#include "core/dispatch.h"
#include "layers/nhwc_role.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/accumulate.h"
#include "layers/reduction/device_reduce.h"
#include "layers/reduction/reduce_kernels.h"
#include "layers/reduction/reduce_plan.h"

namespace oort {
namespace {

enum class Kind { kSum, kMean, kProduct };

template <typename T>
Gathered<T> Widen(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(value);
  } else {
    return ConvertElement<Gathered<T>>(value);
  }
}

template <typename T>
struct SumOp : ElementOp<SumOp<T>> {
  using State = Gathered<T>;
  State Start() const { return State(0); }
  void Step(State& state, T value, int64_t, int) const { state += Widen(value); }
};

template <typename T>
struct ProductOp : ElementOp<ProductOp<T>> {
  using State = Gathered<T>;
  State Start() const { return State(1); }
  void Step(State& state, T value, int64_t, int) const { state *= Widen(value); }
};

struct SumF32Op {
  using State = double;
  static constexpr int kPasses = 1;
  const ReduceKernels& kernels;
  State Start() const { return 0; }
  void Between(State&, int) const {}
  void Run(State& state, const float* x, int64_t count, int64_t, int) const {
    state += kernels.sum(x, count);
  }
  void Block(State* states, const Columns<float>& columns, int) const {
    kernels.sum_columns({columns.first, columns.rows, columns.step, columns.width}, states);
  }
};

class SumLayer : public PerElementLayer<1> {
 public:
  SumLayer(const LayerInit& init, Kind kind)
      : kind_(kind),
        axes_(init),
        wanted_(WantedDType(init)),
        kernels_(ReduceKernelsFor(init.isa())) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(ResultType(args.tensor(0).dtype()), axes_.Plan(args.shape(0)).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    const DType result = output.dtype();
    if (context.stream() != nullptr) {
      const Reduction reduction = kind_ == Kind::kSum    ? Reduction::kSum
                                  : kind_ == Kind::kMean ? Reduction::kMean
                                                         : Reduction::kProduct;
      ReduceOnDevice(*context.stream(), axes_.Plan(args.shape(0)), reduction, args.tensor(0),
                     &output, nullptr);
      return;
    }
    // Integers are read as they are; anything else is first converted to the result's type.
    const DType from = args.tensor(0).dtype();
    const bool direct = result == DType::kI64 && (IsInteger(from) || from == DType::kBool);
    const Tensor input = direct ? args.tensor(0) : args.tensor(0).To(result);
    const ReducePlan plan = axes_.Plan(input.shape());
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if (direct) {
        if constexpr (std::is_integral_v<T>) Run<T, int64_t>(context, plan, input, output);
      } else {
        Run<T, T>(context, plan, input, output);
      }
    });
  }

 private:
  DType ResultType(DType input) const {
    const bool divides = kind_ == Kind::kMean;
    if (IsFloat(wanted_) || wanted_ == DType::kC64 || wanted_ == DType::kC128) return wanted_;
    if (!divides && (IsInteger(wanted_) || wanted_ == DType::kBool)) return wanted_;
    if (IsFloat(input) || IsComplex(input)) return input;
    // torch refuses the mean of integers unless a dtype is given, which the file has lost.
    return divides ? DType::kF32 : DType::kI64;
  }

  template <typename T, typename Out>
  void Run(const Context& context, const ReducePlan& plan, const Tensor& input,
           Tensor& output) const {
    const T* x = input.data<T>();
    Out* y = output.data<Out>();
    const double divisor = kind_ == Kind::kMean ? static_cast<double>(plan.count) : 1;
    const auto emit = [&](int64_t i, const Gathered<T>& state) {
      if constexpr (std::is_integral_v<T>) {
        y[i] = std::is_same_v<Out, bool> ? static_cast<Out>(state != 0) : static_cast<Out>(state);
      } else {
        y[i] = ConvertElement<Out>(divisor == 1 ? state : state / divisor);
      }
    };
    if (kind_ == Kind::kProduct) {
      Reduce(context, plan, x, ProductOp<T>{}, emit);
    } else if constexpr (std::is_same_v<T, float>) {
      Reduce(context, plan, x, SumF32Op{kernels_}, emit);
    } else {
      Reduce(context, plan, x, SumOp<T>{}, emit);
    }
  }

  Kind kind_;
  ReduceAxes axes_;
  DType wanted_;
  const ReduceKernels& kernels_;
};

LayerCreator CreateSum(Kind kind) {
  return [kind](const LayerInit& init) { return std::make_unique<SumLayer>(init, kind); };
}

/// A reduction that keeps the rank gives an image. One over all pixels of each image gives the same
/// matrix (N, C) in both layouts.
NhwcRole ReductionNhwcRole(const Operator& op, int rank) {
  if (!HasKnownAxis(op)) return NhwcRole::kNone;
  if (ParamText(op, "keepdim", "False") == "True") return NhwcRole::kFollows;
  const Value dims = op.params.at("dim").value();
  if (rank != 4 || !dims.IsList() || dims.AsList().size() != 2) return NhwcRole::kNone;
  std::array<bool, 4> reduced{};
  for (int64_t dim : dims.AsInts()) {
    if (dim < -4 || dim > 3) return NhwcRole::kNone;
    reduced[static_cast<size_t>((dim + 4) % 4)] = true;
  }
  return reduced[2] && reduced[3] ? NhwcRole::kEnds : NhwcRole::kNone;
}

OperatorSchema SumSchema(const char* type, const char* doc) {
  return OperatorSchema({type}, doc)
      .Tensor("input", kReals | DType::kC64 | DType::kC128)
      .Ints("dim")
      .Nullable()
      .Bool("keepdim", false)
      .DTypeName("dtype")
      .Nullable();
}

}  // namespace
}  // namespace oort

OORT_LAYERS(reduce_sum) {
  registry.Add(SumSchema("torch.sum", "The sum over some axes, or all.")
                   .HasNhwcForm("nhwc.sum", ReductionNhwcRole),
               CreateSum(Kind::kSum));
  registry.Add(SumSchema("torch.mean", "The mean over some axes, or all.")
                   .KeepsDType()
                   .HasNhwcForm("nhwc.mean", ReductionNhwcRole),
               CreateSum(Kind::kMean));
  registry.Add(SumSchema("torch.prod", "The product over some axes, or all."),
               CreateSum(Kind::kProduct));
}
