// SPDX-License-Identifier: MIT
#include "layers/norm/norm_common.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/reduce_norm.h"

namespace oort {
namespace {

class Normalize : public PerElementLayer<3> {
 public:
  explicit Normalize(const LayerInit& init)
      : p_(NormPower(init.Constant("p"))),
        dims_(init.Ints("dim")),
        eps_(init.Float("eps")),
        kernels_(ReduceKernelsFor(init.isa())) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    const ReducePlan plan = PlanReduction(x.shape(), dims_, true);
    if (std::isinf(p_)) RequireElements(plan, x.shape());
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const ReducePlan plan = PlanReduction(x.shape(), dims_, true);
    if (x.elements() == 0) return;
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const NormOp<T> op(p_, kernels_);
        std::vector<double> divisors(static_cast<size_t>(plan.results));
        Reduce(context, plan, x.data<T>(), op, [&](int64_t i, double state) {
          const double norm = op.Finish(state);
          divisors[static_cast<size_t>(i)] = norm < eps_ ? eps_ : norm;  // NaN stays
        });
        Divide(context, x, outputs[0].AsTensor(), divisors, TypeTag<T>{});
      }
    });
  }

 private:
  /// pnnx keeps one axis, so the input is (outer, axis, inner) and a divisor goes with (outer,
  /// inner).
  template <typename T>
  void Divide(const Context& context, const Tensor& x, Tensor& y,
              const std::vector<double>& divisors, TypeTag<T>) const {
    const Shape& shape = x.shape();
    const int axis = NormalizeAxis(dims_[0], shape.rank());
    const int64_t extent = shape.rank() == 0 ? 1 : shape[axis];
    const int64_t inner = shape.Product(std::min(axis + 1, shape.rank()), shape.rank());
    const T* in = x.data<T>();
    T* out = y.data<T>();
    context.ParallelFor(x.elements() / inner, RowGrain(inner), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const double* row = divisors.data() + r / extent * inner;
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t at = r * inner + i;
          out[at] = ConvertElement<T>(ConvertElement<double>(in[at]) / row[i]);
        }
      }
    });
  }

  double p_;
  std::vector<int64_t> dims_;
  double eps_;
  const ReduceKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(normalize) {
  registry.Add(OperatorSchema({"F.normalize"}, "x / max(p-norm of x along an axis, eps).")
                   .Tensor("input", kFloats)
                   .Any("p", Value(2.0))
                   .Ints("dim", 1, Value(1))
                   .Float("eps", 1e-12),
               Create<Normalize>());
}
