// SPDX-License-Identifier: MIT
#include "core/dispatch.h"
#include "core/scratch_vector.h"
#include "layers/per_element_layer.h"
#include "layers/pooling/adaptive.h"
#include "layers/pooling/device_pool.h"
#include "layers/pooling/pool_rows.h"
#include "layers/reduction/reduce_kernels.h"

namespace oort {
namespace {

template <typename T>
void AveragePlane(const std::array<AdaptiveAxis, 3>& axes, const T* in, T* out) {
  const auto& [depth, height, width] = axes;
  for (int64_t od = 0; od < depth.out; ++od) {
    for (int64_t oh = 0; oh < height.out; ++oh) {
      for (int64_t ow = 0; ow < width.out; ++ow) {
        const int64_t w_begin = width.Begin(ow), w_end = width.End(ow);
        double sum = 0;
        for (int64_t d = depth.Begin(od); d < depth.End(od); ++d) {
          for (int64_t h = height.Begin(oh); h < height.End(oh); ++h) {
            const T* row = in + (d * height.in + h) * width.in;
            for (int64_t w = w_begin; w < w_end; ++w) sum += ConvertElement<double>(row[w]);
          }
        }
        const int64_t count = (depth.End(od) - depth.Begin(od)) *
                              (height.End(oh) - height.Begin(oh)) * (w_end - w_begin);
        *out++ = ConvertElement<T>(sum / static_cast<double>(count));
      }
    }
  }
}

void AverageRows(const PoolKernels& pool, const ReduceKernels& reduce,
                 const std::array<AdaptiveAxis, 3>& axes, const float* in, float* out,
                 float* folded) {
  const auto& [depth, height, width] = axes;
  for (int64_t d = 0; d < depth.out; ++d) {
    for (int64_t h = 0; h < height.out; ++h) {
      const PoolRows rows = {in + (depth.Begin(d) * height.in + height.Begin(h)) * width.in,
                             depth.End(d) - depth.Begin(d),
                             height.in * width.in,
                             height.End(h) - height.Begin(h),
                             width.in,
                             width.in};
      pool.sum_rows(rows, folded);
      for (int64_t w = 0; w < width.out; ++w) {
        const int64_t first = width.Begin(w), count = width.End(w) - first;
        const double divisor = static_cast<double>(rows.depth * rows.height * count);
        *out++ = static_cast<float>(reduce.sum(folded + first, count) / divisor);
      }
    }
  }
}

void AverageF32(const Context& context, Isa isa, const AdaptiveGeometry& geometry, const float* in,
                float* out) {
  const PoolKernels& pool = PoolKernelsFor(isa);
  const ReduceKernels& reduce = ReduceKernelsFor(isa);
  const int64_t in_plane = geometry.in_plane(), out_plane = geometry.out_plane();
  context.ParallelFor(geometry.planes, geometry.Grain(), [&](int64_t begin, int64_t end) {
    if (out_plane == 1) {
      const double divisor = static_cast<double>(in_plane);
      for (int64_t p = begin; p < end; ++p) {
        out[p] = static_cast<float>(reduce.sum(in + p * in_plane, in_plane) / divisor);
      }
      return;
    }
    ScratchVector<float> folded(static_cast<size_t>(geometry.axes[2].in));
    for (int64_t p = begin; p < end; ++p) {
      AverageRows(pool, reduce, geometry.axes, in + p * in_plane, out + p * out_plane,
                  folded.data());
    }
  });
}

class AdaptiveAvgPool : public PerElementLayer<1> {
 public:
  AdaptiveAvgPool(const LayerInit& init, int spatial_rank)
      : rank_(spatial_rank), isa_(init.isa()) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), AdaptTo(args.shape(0), args[1], rank_).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    AdaptiveAverage(context, isa_, AdaptTo(args.shape(0), args[1], rank_), args.tensor(0),
                    outputs[0].AsTensor());
  }

 private:
  int rank_;
  Isa isa_;
};

}  // namespace

void AdaptiveAverage(const Context& context, Isa isa, const AdaptiveGeometry& geometry,
                     const Tensor& input, Tensor& output) {
  if (context.stream() != nullptr) {
    return PoolOnDevice(*context.stream(), DevicePool(geometry, false), input, output, nullptr);
  }
  VisitDType(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_same_v<T, float>) {
      AverageF32(context, isa, geometry, input.data<float>(), output.data<float>());
    } else if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
      const T* in = input.data<T>();
      T* out = output.data<T>();
      context.ParallelFor(geometry.planes, geometry.Grain(), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          AveragePlane(geometry.axes, in + p * geometry.in_plane(), out + p * geometry.out_plane());
        }
      });
    }
  });
}

}  // namespace oort

OORT_LAYERS(adaptive_avg_pool) {
  for (int rank = 1; rank <= 3; ++rank) {
    OperatorSchema schema = AdaptiveSchema("AdaptiveAvgPool", "adaptive_avg_pool", rank,
                                           "The mean under windows that divide the input evenly.");
    schema.KeepsDType();
    if (rank == 2) schema.HasNhwcForm("nhwc.AdaptiveAvgPool2d", FollowsWithoutIndices);
    registry.Add(std::move(schema), CreatePool<AdaptiveAvgPool>(rank));
  }
}
