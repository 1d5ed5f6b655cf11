// SPDX-License-Identifier: MIT
#include "core/dispatch.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/accumulate.h"
#include "layers/reduction/device_lines.h"

namespace oort {
namespace {

/// Sums (products) of the first 1, 2, 3 … elements that lie `step` apart.
template <typename T, bool kProduct>
void Accumulate(const T* x, T* y, int64_t count, int64_t step) {
  Gathered<T> gathered(kProduct ? 1 : 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto value = ConvertElement<Gathered<T>>(x[i * step]);
    if constexpr (kProduct) {
      gathered *= value;
    } else {
      gathered += value;
    }
    y[i * step] = ConvertElement<T>(gathered);
  }
}

class Cumulative : public PerElementLayer<1> {
 public:
  Cumulative(const LayerInit& init, bool product)
      : product_(product), dim_(init.Int("dim")), wanted_(WantedDType(init)) {
    if (wanted_ == DType::kC32) wanted_ = DType::kNull;
    on_device_ = init.device().type != DeviceType::kCpu;
    for (const Operand* input : init.inputs()) RequireReal(input->dtype);
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    NormalizeAxis(dim_, x.rank());
    RequireReal(x.dtype());
    return {Tensor::Meta(ResultType(x.dtype()), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& y = outputs[0].AsTensor();
    if (y.elements() == 0) return;
    if (context.stream() != nullptr) {
      const AxisLines lines(y.shape(), NormalizeAxis(dim_, y.rank()));
      return ScanOnDevice(*context.stream(), lines, product_, args.tensor(0), y);
    }
    const Tensor x = args.tensor(0).To(y.dtype());
    const int axis = NormalizeAxis(dim_, x.rank());
    const int64_t extent = x.rank() == 0 ? 1 : x.shape()[axis];
    const int64_t inner = x.shape().Product(std::min(axis + 1, x.rank()), x.rank());
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const T* in = x.data<T>();
      T* out = y.data<T>();
      const auto run = product_ ? Accumulate<T, true> : Accumulate<T, false>;
      context.ParallelFor(x.elements() / extent, 16384 / extent + 1,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) {
                              const int64_t at = i / inner * extent * inner + i % inner;
                              run(in + at, out + at, extent, inner);
                            }
                          });
    });
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    const DType dtype = args.tensor(0).dtype();
    if (ResultType(dtype) != dtype) return {};
    return {{Reuse::kInPlace, 0, 0, 0}};
  }

 private:
  void RequireReal(DType input) const {
    if (!on_device_ || (!IsComplex(input) && !IsComplex(wanted_))) return;
    throw Error(ErrorCode::kUnsupported, "is of complex numbers");
  }

  DType ResultType(DType input) const {
    if (wanted_ != DType::kNull) return wanted_;
    return IsInteger(input) || input == DType::kBool ? DType::kI64 : input;
  }

  bool product_, on_device_ = false;
  int64_t dim_;
  DType wanted_;
};

LayerCreator CreateCumulative(bool product) {
  return [product](const LayerInit& init) { return std::make_unique<Cumulative>(init, product); };
}

OperatorSchema CumulativeSchema(const char* type, const char* doc) {
  return OperatorSchema({type}, doc)
      .Tensor("input", kReals | DType::kC64 | DType::kC128)
      .Int("dim")
      .DTypeName("dtype")
      .Nullable();
}

}  // namespace
}  // namespace oort

OORT_LAYERS(cumulative) {
  registry.Add(CumulativeSchema("torch.cumsum", "Running sums along an axis."),
               CreateCumulative(false));
  registry.Add(CumulativeSchema("torch.cumprod", "Running products along an axis."),
               CreateCumulative(true));
}
