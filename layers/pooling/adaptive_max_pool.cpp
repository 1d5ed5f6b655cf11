// SPDX-License-Identifier: MIT
#include <limits>

#include "core/checked.h"
#include "core/dispatch.h"
#include "layers/per_element_layer.h"
#include "layers/pooling/adaptive.h"
#include "layers/pooling/device_pool.h"
#include "layers/reduction/reduce_kernels.h"

namespace oort {
namespace {

template <typename T>
void MaxPlane(const std::array<AdaptiveAxis, 3>& axes, const T* in, T* out, int64_t* indices) {
  using Wide = std::conditional_t<kIsHalf<T>, float, T>;
  const auto& [depth, height, width] = axes;
  for (int64_t od = 0; od < depth.out; ++od) {
    for (int64_t oh = 0; oh < height.out; ++oh) {
      for (int64_t ow = 0; ow < width.out; ++ow) {
        const int64_t w_begin = width.Begin(ow), w_end = width.End(ow);
        Wide best = -std::numeric_limits<Wide>::infinity();
        int64_t where = (depth.Begin(od) * height.in + height.Begin(oh)) * width.in + w_begin;
        for (int64_t d = depth.Begin(od); d < depth.End(od); ++d) {
          for (int64_t h = height.Begin(oh); h < height.End(oh); ++h) {
            const int64_t row = (d * height.in + h) * width.in;
            for (int64_t index = row + w_begin; index < row + w_end; ++index) {
              const Wide value = static_cast<Wide>(in[index]);
              if (value > best || value != value) {
                best = value;
                where = index;
              }
            }
          }
        }
        *out++ = static_cast<T>(best);
        if (indices != nullptr) *indices++ = where;
      }
    }
  }
}

class AdaptiveMaxPool : public PerElementLayer<1> {
 public:
  AdaptiveMaxPool(const LayerInit& init, int spatial_rank)
      : rank_(spatial_rank),
        // pnnx gives the module a single tuple and the function two outputs.
        tuple_(init.outputs().size() == 1 && init.Bool("return_indices") &&
               init.type().starts_with("nn.")),
        indices_(tuple_ || init.outputs().size() == 2),
        kernels_(ReduceKernelsFor(init.isa())) {
    if (tuple_ && init.device().type != DeviceType::kCpu) {
      throw Error(ErrorCode::kUnsupported, "gives a tuple, which the GPU does not");
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Shape output = AdaptTo(args.shape(0), args[1], rank_).output;
    Value::List metas{Tensor::Meta(args.tensor(0).dtype(), output)};
    if (indices_) metas.emplace_back(Tensor::Meta(DType::kI64, output));
    if (tuple_) return {Value(std::move(metas))};
    return metas;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    const std::span<Value> results = tuple_ ? std::span<Value>(outputs[0].AsList()) : outputs;
    // Only plain outputs are sure to be allocated; those inside a tuple may not be.
    for (Value& result : results) {
      Tensor& tensor = result.AsTensor();
      if (!tensor.has_data()) tensor = Tensor(tensor.dtype(), tensor.shape());
    }
    const AdaptiveGeometry geometry = AdaptTo(input.shape(), args[1], rank_);
    if (context.stream() != nullptr) {
      return PoolOnDevice(*context.stream(), DevicePool(geometry, true), input,
                          results[0].AsTensor(), indices_ ? &results[1].AsTensor() : nullptr);
    }
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const T* in = input.data<T>();
        T* out = results[0].AsTensor().data<T>();
        int64_t* indices = indices_ ? results[1].AsTensor().data<int64_t>() : nullptr;
        context.ParallelFor(geometry.planes, geometry.Grain(), [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p) {
            if constexpr (std::is_same_v<T, float>) {
              if (geometry.out_plane() == 1 && indices == nullptr) {
                out[p] = kernels_.max(in + p * geometry.in_plane(), geometry.in_plane());
                continue;
              }
            }
            const int64_t at = p * geometry.out_plane();
            MaxPlane(geometry.axes, in + p * geometry.in_plane(), out + at,
                     indices != nullptr ? indices + at : nullptr);
          }
        });
      }
    });
  }

  /// Forward itself allocates what is inside a tuple: only through this does the memory plan, and
  /// with it the limit of a session, know of it.
  size_t Workspace(const Args& args, int) const override {
    if (!tuple_) return 0;
    const int64_t elements = AdaptTo(args.shape(0), args[1], rank_).output.elements();
    return CheckedMultiply(static_cast<size_t>(elements),
                           ItemSize(args.tensor(0).dtype()) + sizeof(int64_t));
  }

 private:
  int rank_;
  bool tuple_;
  bool indices_;
  const ReduceKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(adaptive_max_pool) {
  for (int rank = 1; rank <= 3; ++rank) {
    OperatorSchema schema =
        AdaptiveSchema("AdaptiveMaxPool", "adaptive_max_pool", rank,
                       "The maximum under windows that divide the input evenly.");
    schema.Bool("return_indices", false).Outputs(1, 2);
    if (rank == 2) schema.HasNhwcForm("nhwc.AdaptiveMaxPool2d", FollowsWithoutIndices);
    registry.Add(std::move(schema), CreatePool<AdaptiveMaxPool>(rank));
  }
}
