// SPDX-License-Identifier: MIT
#include "core/dispatch.h"
#include "core/scratch_vector.h"
#include "layers/pooling/device_pool.h"
#include "layers/pooling/pool_divisor.h"
#include "layers/pooling/pool_rows.h"

namespace oort {
namespace {

template <typename T>
void AveragePlane(const PlaneWindow& window, const PoolDivisor& divisor, const T* in, T* out) {
  // Sums of integers wrap around, as torch's do.
  using Wide =
      std::conditional_t<kIsHalf<T>, float, std::conditional_t<std::is_integral_v<T>, uint64_t, T>>;
  using Mean = std::conditional_t<std::is_integral_v<T>, int64_t, Wide>;
  ForEachWindow(window, [&](const WindowTaps& taps) {
    Wide sum = 0;
    ForEachTap(window, taps, [&](int64_t at) { sum += static_cast<Wide>(in[at]); });
    const int64_t count = divisor.Along(0, taps.out_depth) * divisor.Along(1, taps.out_height) *
                          divisor.Along(2, taps.out_width);
    *out++ = static_cast<T>(static_cast<Mean>(sum) / static_cast<Mean>(count));
  });
}

class AvgPool : public Layer {
 public:
  AvgPool(const LayerInit& init, int spatial_rank)
      : window_(init, spatial_rank), divisor_(init), kernels_(PoolKernelsFor(init.isa())) {
    RequireFloatsOnDevice(init);
    window_.KernelElements();  // the divisor must be representable
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), window_.Geometry(args.shape(0)).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    Tensor& output = outputs[0].AsTensor();
    const PoolGeometry geometry = window_.Geometry(input.shape());
    const PoolDivisor divisor(geometry.window, divisor_);
    if (context.stream() != nullptr) {
      DevicePool pool(geometry, false);
      pool.include_pad = divisor_.include_pad;
      pool.override_with = divisor_.override_with;
      return PoolOnDevice(*context.stream(), pool, input, output, nullptr);
    }
    if (input.dtype() == DType::kF32 && PoolRow::Fits(geometry.window[2])) {
      return ForwardF32(context, geometry, divisor, input.data<float>(), output.data<float>());
    }
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T> || std::is_same_v<T, int64_t>) {
        const T* in = input.data<T>();
        T* out = output.data<T>();
        context.ParallelFor(geometry.planes, PlaneGrain(geometry), [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p) {
            AveragePlane(geometry.window, divisor, in + p * geometry.in_plane(),
                         out + p * geometry.out_plane());
          }
        });
      }
    });
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return window_.Work(Layer::Work(args, outputs), outputs[0]);
  }

 private:
  void ForwardF32(const Context& context, const PoolGeometry& geometry, const PoolDivisor& divisor,
                  const float* in, float* out) const {
    // Names of their own, not bindings: clang 14 cannot capture those.
    const auto &depth = geometry.window[0], &height = geometry.window[1],
               &width = geometry.window[2];
    ScratchVector<float> columns(static_cast<size_t>(width.out));
    for (int64_t i = 0; i < width.out; ++i) {
      columns[static_cast<size_t>(i)] = static_cast<float>(divisor.Along(2, i));
    }
    context.ParallelFor(geometry.planes, PlaneGrain(geometry), [&](int64_t begin, int64_t end) {
      PoolRow row(width, 0);
      float* to = out + begin * geometry.out_plane();
      for (int64_t p = begin; p < end; ++p) {
        const float* plane = in + p * geometry.in_plane();
        for (int64_t d = 0; d < depth.out; ++d) {
          for (int64_t h = 0; h < height.out; ++h, to += width.out) {
            kernels_.sum_rows(RowsUnder(geometry.window, plane, d, h), row.inner());
            kernels_.sum_windows(row.padded(), width.kernel, width.stride, 1, to, width.out);
            const int64_t rows = divisor.Along(0, d) * divisor.Along(1, h);
            kernels_.divide(to, columns.data(), static_cast<float>(rows), width.out);
          }
        }
      }
    });
  }

  WindowParams window_;
  PoolDivisorParams divisor_;
  const PoolKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(avg_pool) {
  for (int rank = 1; rank <= 3; ++rank) {
    OperatorSchema schema(PoolTypes("AvgPool", "avg_pool", rank), "The mean under each window.");
    schema.Tensor("input", kFloats | DType::kI64)
        .Ints("kernel_size", rank)
        .Ints("stride", rank)
        .Nullable()
        .Ints("padding", rank, Value(0))
        .Bool("ceil_mode", false)
        .Bool("count_include_pad", true)
        .KeepsDType();
    if (rank > 1) schema.Int("divisor_override").Nullable();
    if (rank == 2) schema.HasNhwcForm("nhwc.AvgPool2d", FollowsWithoutIndices);
    registry.Add(std::move(schema), CreatePool<AvgPool>(rank));
  }
}
