// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "core/dispatch.h"
#include "layers/pooling/device_pool.h"
#include "layers/pooling/pool_rows.h"

namespace oort {
namespace {

/// The largest element under each window and, if asked for, where in its plane it lies.
template <typename T>
void MaxPlane(const PlaneWindow& window, const T* in, T* out, int64_t* indices) {
  using Wide = std::conditional_t<kIsHalf<T>, float, T>;
  constexpr bool kHasInfinity = std::numeric_limits<Wide>::has_infinity;
  constexpr Wide kLowest =
      kHasInfinity ? -std::numeric_limits<Wide>::infinity() : std::numeric_limits<Wide>::lowest();
  ForEachWindow(window, [&](const WindowTaps& taps) {
    Wide best = kLowest;
    int64_t where =
        (taps.depth.begin * window[1].in + taps.height.begin) * window[2].in + taps.width.begin;
    ForEachTap(window, taps, [&](int64_t at) {
      const Wide value = static_cast<Wide>(in[at]);
      if (value > best || value != value) {
        best = value;
        where = at;
      }
    });
    *out++ = static_cast<T>(best);
    if (indices != nullptr) *indices++ = where;
  });
}

class MaxPool : public Layer {
 public:
  MaxPool(const LayerInit& init, int spatial_rank)
      : window_(init, spatial_rank),
        outputs_(init.outputs().size()),
        kernels_(PoolKernelsFor(init.isa())) {
    RequireFloatsOnDevice(init);
    if (outputs_ == 2 && !init.Bool("return_indices")) {
      throw Error(ErrorCode::kInvalidModel, "two outputs need return_indices=True");
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Shape output = window_.Geometry(args.shape(0)).output;
    std::vector<Value> metas{Tensor::Meta(args.tensor(0).dtype(), output)};
    if (outputs_ == 2) metas.emplace_back(Tensor::Meta(DType::kI64, output));
    return metas;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    const PoolGeometry geometry = window_.Geometry(input.shape());
    if (context.stream() != nullptr) {
      return PoolOnDevice(*context.stream(), DevicePool(geometry, true), input,
                          outputs[0].AsTensor(), outputs_ == 2 ? &outputs[1].AsTensor() : nullptr);
    }
    if (outputs_ == 1 && input.dtype() == DType::kF32 && PoolRow::Fits(geometry.window[2])) {
      return ForwardF32(context, geometry, input.data<float>(),
                        outputs[0].AsTensor().data<float>());
    }
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsComplex<T> && !std::is_same_v<T, bool>) {
        const T* in = input.data<T>();
        T* out = outputs[0].AsTensor().data<T>();
        int64_t* indices = outputs_ == 2 ? outputs[1].AsTensor().data<int64_t>() : nullptr;
        context.ParallelFor(geometry.planes, PlaneGrain(geometry), [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p) {
            const int64_t at = p * geometry.out_plane();
            MaxPlane(geometry.window, in + p * geometry.in_plane(), out + at,
                     indices != nullptr ? indices + at : nullptr);
          }
        });
      }
    });
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return window_.Work(Layer::Work(args, outputs), outputs[0]);
  }

 private:
  void ForwardF32(const Context& context, const PoolGeometry& geometry, const float* in,
                  float* out) const {
    // Names of their own, not bindings: clang 14 cannot capture those.
    const auto &depth = geometry.window[0], &height = geometry.window[1],
               &width = geometry.window[2];
    context.ParallelFor(geometry.planes, PlaneGrain(geometry), [&](int64_t begin, int64_t end) {
      PoolRow row(width, -std::numeric_limits<float>::infinity());
      float* to = out + begin * geometry.out_plane();
      for (int64_t p = begin; p < end; ++p) {
        const float* plane = in + p * geometry.in_plane();
        for (int64_t d = 0; d < depth.out; ++d) {
          for (int64_t h = 0; h < height.out; ++h, to += width.out) {
            kernels_.max_rows(RowsUnder(geometry.window, plane, d, h), row.inner());
            kernels_.max_windows(row.padded(), width.kernel, width.stride, width.dilation, to,
                                 width.out);
          }
        }
      }
    });
  }

  WindowParams window_;
  size_t outputs_;
  const PoolKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(max_pool) {
  for (int rank = 1; rank <= 3; ++rank) {
    // torch's max_pool1d takes floats only; integers are its 2d and 3d forms' privilege.
    OperatorSchema schema(PoolTypes("MaxPool", "max_pool", rank),
                          "The largest element under each window, and where it lies.");
    schema.Tensor("input", rank == 1 ? kFloats : kFloats | kIntegers)
        .Ints("kernel_size", rank)
        .Ints("stride", rank)
        .Nullable()
        .Ints("padding", rank, Value(0))
        .Ints("dilation", rank, Value(1))
        .Bool("ceil_mode", false)
        .Bool("return_indices", false)
        .Outputs(1, 2)
        .KeepsDType();
    if (rank == 2) schema.HasNhwcForm("nhwc.MaxPool2d", FollowsWithoutIndices);
    registry.Add(std::move(schema), CreatePool<MaxPool>(rank));
  }
}
