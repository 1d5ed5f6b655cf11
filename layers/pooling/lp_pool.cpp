// SPDX-License-Identifier: MIT
#include <cmath>

#include "core/dispatch.h"
#include "layers/pooling/window.h"

namespace oort {
namespace {

template <typename T>
void LpPlane(const PlaneWindow& window, double p, double elements, const T* in, T* out) {
  ForEachWindow(window, [&](const WindowTaps& taps) {
    double sum = 0;
    ForEachTap(window, taps, [&](int64_t at) {
      const double x = ConvertElement<double>(in[at]);
      sum += p == 2 ? x * x : std::pow(x, p);
    });
    // torch averages, then scales by the whole kernel: windows cut off by ceil_mode grow.
    const double count = static_cast<double>(taps.count());
    *out++ = ConvertElement<T>(std::pow(sum / count * elements, 1 / p));
  });
}

class LpPool : public Layer {
 public:
  LpPool(const LayerInit& init, int spatial_rank)
      : window_(init, spatial_rank),
        p_(init.Float("norm_type")),
        elements_(static_cast<double>(window_.KernelElements())) {
    if (p_ == 0 || std::isnan(p_)) {
      throw Error(ErrorCode::kInvalidArgument, "norm_type must be a number other than zero");
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const DType dtype = args.tensor(0).dtype();
    return {
        Tensor::Meta(IsFloat(dtype) ? dtype : DType::kF32, window_.Geometry(args.shape(0)).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor input = args.tensor(0).To(outputs[0].AsTensor().dtype());
    const PoolGeometry geometry = window_.Geometry(input.shape());
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const T* in = input.data<T>();
        T* out = outputs[0].AsTensor().data<T>();
        context.ParallelFor(geometry.planes, PlaneGrain(geometry), [&](int64_t begin, int64_t end) {
          for (int64_t plane = begin; plane < end; ++plane) {
            LpPlane(geometry.window, p_, elements_, in + plane * geometry.in_plane(),
                    out + plane * geometry.out_plane());
          }
        });
      }
    });
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return window_.Work(Layer::Work(args, outputs), outputs[0]);
  }

 private:
  WindowParams window_;
  double p_;
  double elements_;
};

/// torch takes i64 with a whole norm_type too, and rounds then; the file does not tell.
constexpr DTypeSet kLpDTypes = kFloats | DType::kI32 | DType::kI16 | DType::kI8 | DType::kU8;

}  // namespace
}  // namespace oort

OORT_LAYERS(lp_pool) {
  for (int rank = 1; rank <= 3; ++rank) {
    registry.Add(OperatorSchema(PoolTypes("LPPool", "lp_pool", rank),
                                "The p-norm under each window: (sum of x^p)^(1/p).")
                     .Tensor("input", kLpDTypes)
                     .Float("norm_type")
                     .Ints("kernel_size", rank)
                     .Ints("stride", rank)
                     .Nullable()
                     .Bool("ceil_mode", false),
                 CreatePool<LpPool>(rank));
  }
}
