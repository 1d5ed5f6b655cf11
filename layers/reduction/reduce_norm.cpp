// SPDX-License-Identifier: MIT
#include "layers/reduction/reduce_norm.h"
#include "layers/per_element_layer.h"

#include "layers/reduction/accumulate.h"

namespace oort {
namespace {

DType MagnitudeType(DType dtype) {
  if (dtype == DType::kC64) return DType::kF32;
  return dtype == DType::kC128 ? DType::kF64 : dtype;
}

/// |x| of complex numbers; anything else as it is.
Tensor Magnitudes(const Tensor& x) {
  if (!IsComplex(x.dtype())) return x;
  Tensor result(MagnitudeType(x.dtype()), x.shape());
  VisitDType(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_floating_point_v<T>) {
      const std::complex<T>* from = x.data<std::complex<T>>();
      T* to = result.data<T>();
      for (int64_t i = 0; i < x.elements(); ++i) to[i] = std::abs(from[i]);
    }
  });
  return result;
}

class Norm : public PerElementLayer<2> {
 public:
  explicit Norm(const LayerInit& init)
      : p_(NormPower(init.Constant("p"))), axes_(init), kernels_(ReduceKernelsFor(init.isa())) {
    if (const DType dtype = WantedDType(init); IsFloat(dtype)) wanted_ = dtype;
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    const ReducePlan plan = axes_.Plan(x.shape());
    if (std::isinf(p_)) RequireElements(plan, x.shape());
    return {
        Tensor::Meta(wanted_ == DType::kNull ? MagnitudeType(x.dtype()) : wanted_, plan.output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    const Tensor x = Magnitudes(args.tensor(0)).To(output.dtype());
    const ReducePlan plan = axes_.Plan(x.shape());
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        T* y = output.data<T>();
        const NormOp<T> op(p_, kernels_);
        Reduce(context, plan, x.data<T>(), op,
               [&](int64_t i, double state) { y[i] = ConvertElement<T>(op.Finish(state)); });
      }
    });
  }

 private:
  double p_;
  ReduceAxes axes_;
  DType wanted_ = DType::kNull;
  const ReduceKernels& kernels_;
};

constexpr DTypeSet kNormDTypes = kFloats | DType::kC64 | DType::kC128;

}  // namespace
}  // namespace oort

OORT_LAYERS(reduce_norm) {
  registry.Add(OperatorSchema({"torch.norm"}, "(sum of |x|^p)^(1/p) over some axes, or all.")
                   .Tensor("input", kNormDTypes)
                   .Any("p", Value(2))
                   .Ints("dim")
                   .Nullable()
                   .Bool("keepdim", false)
                   .DTypeName("dtype")
                   .Nullable(),
               Create<Norm>());
}
