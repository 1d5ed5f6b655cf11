// SPDX-License-Identifier: MIT
#include "core/dispatch.h"
#include "layers/pooling/adaptive.h"
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

class AdaptiveAvgPool : public Layer {
 public:
  AdaptiveAvgPool(const LayerInit& init, int spatial_rank)
      : rank_(spatial_rank),
        pool_(PoolKernelsFor(init.isa())),
        reduce_(ReduceKernelsFor(init.isa())) {}

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), AdaptTo(args.shape(0), args[1], rank_).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    const AdaptiveGeometry geometry = AdaptTo(input.shape(), args[1], rank_);
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const T* in = input.data<T>();
        T* out = outputs[0].AsTensor().data<T>();
        context.ParallelFor(geometry.planes, geometry.Grain(), [&](int64_t begin, int64_t end) {
          RunPlanes(geometry, in, out, begin, end);
        });
      }
    });
  }

 private:
  template <typename T>
  void RunPlanes(const AdaptiveGeometry& geometry, const T* in, T* out, int64_t begin,
                 int64_t end) const {
    if constexpr (std::is_same_v<T, float>) {
      if (geometry.out_plane() == 1) return RunGlobal(geometry, in, out, begin, end);
      return RunRows(geometry, in, out, begin, end);
    }
    for (int64_t p = begin; p < end; ++p) {
      AveragePlane(geometry.axes, in + p * geometry.in_plane(), out + p * geometry.out_plane());
    }
  }

  void RunGlobal(const AdaptiveGeometry& geometry, const float* in, float* out, int64_t begin,
                 int64_t end) const {
    const int64_t plane = geometry.in_plane();
    for (int64_t p = begin; p < end; ++p) {
      out[p] = static_cast<float>(reduce_.sum(in + p * plane, plane) / static_cast<double>(plane));
    }
  }

  void RunRows(const AdaptiveGeometry& geometry, const float* in, float* out, int64_t begin,
               int64_t end) const {
    const auto& [depth, height, width] = geometry.axes;
    std::vector<float> folded(static_cast<size_t>(width.in));
    float* to = out + begin * geometry.out_plane();
    for (int64_t p = begin; p < end; ++p) {
      const float* plane = in + p * geometry.in_plane();
      for (int64_t d = 0; d < depth.out; ++d) {
        for (int64_t h = 0; h < height.out; ++h) {
          const PoolRows rows = {plane + (depth.Begin(d) * height.in + height.Begin(h)) * width.in,
                                 depth.End(d) - depth.Begin(d),
                                 height.in * width.in,
                                 height.End(h) - height.Begin(h),
                                 width.in,
                                 width.in};
          pool_.sum_rows(rows, folded.data());
          for (int64_t w = 0; w < width.out; ++w) {
            const int64_t first = width.Begin(w), count = width.End(w) - first;
            const double divisor = static_cast<double>(rows.depth * rows.height * count);
            *to++ = static_cast<float>(reduce_.sum(folded.data() + first, count) / divisor);
          }
        }
      }
    }
  }

  int rank_;
  const PoolKernels& pool_;
  const ReduceKernels& reduce_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(adaptive_avg_pool) {
  for (int rank = 1; rank <= 3; ++rank) {
    registry.Add(AdaptiveSchema("AdaptiveAvgPool", "adaptive_avg_pool", rank,
                                "The mean under windows that divide the input evenly."),
                 CreatePool<AdaptiveAvgPool>(rank));
  }
}
