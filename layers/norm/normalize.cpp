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
        tables_(init.isa()) {}

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
        const NormOp<T> op(p_, tables_.reduce);
        using Divisor = std::conditional_t<std::is_same_v<T, double>, double, float>;
        std::vector<Divisor> divisors(static_cast<size_t>(plan.results));
        Reduce(context, plan, x.data<T>(), op, [&](int64_t i, double state) {
          const double norm = op.Finish(state);
          divisors[static_cast<size_t>(i)] =
              static_cast<Divisor>(norm < eps_ ? eps_ : norm);  // NaN stays
        });
        Divide(context, x.shape(), x.data<T>(), outputs[0].AsTensor().data<T>(), divisors);
      }
    });
  }

 private:
  /// pnnx keeps one axis, so the input is (outer, axis, inner) and a divisor goes with (outer,
  /// inner).
  template <typename T, typename Divisor>
  void Divide(const Context& context, const Shape& shape, const T* in, T* out,
              const std::vector<Divisor>& divisors) const {
    const int axis = NormalizeAxis(dims_[0], shape.rank());
    const int64_t extent = shape.rank() == 0 ? 1 : shape[axis];
    const int64_t inner = shape.Product(std::min(axis + 1, shape.rank()), shape.rank());
    const int64_t slab = extent * inner;
    context.ParallelFor(shape.elements() / slab, RowGrain(slab), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const Divisor* divisor = divisors.data() + o * inner;
        if (inner == 1) {
          DivideRow(in + o * slab, out + o * slab, extent, *divisor);
        } else {
          for (int64_t row = o * slab; row < (o + 1) * slab; row += inner) {
            DivideRow(in + row, out + row, inner, divisor);
          }
        }
      }
    });
  }

  /// By one divisor, or by one for each element if it is a pointer.
  template <typename T, typename Divisor>
  void DivideRow(const T* in, T* out, int64_t count, Divisor divisor) const {
    constexpr bool each = std::is_pointer_v<Divisor>;
    if constexpr (std::is_same_v<T, float> && each) {
      tables_.norm.divide_each(in, out, count, divisor);
    } else if constexpr (std::is_same_v<T, float>) {
      tables_.norm.divide(in, out, count, divisor);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        double by;
        if constexpr (each) {
          by = divisor[i];
        } else {
          by = divisor;
        }
        out[i] = ConvertElement<T>(ConvertElement<double>(in[i]) / by);
      }
    }
  }

  double p_;
  std::vector<int64_t> dims_;
  double eps_;
  NormTables tables_;
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
