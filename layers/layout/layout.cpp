// SPDX-License-Identifier: MIT
// The borders of a region of the graph that runs in NHWC.
#include <algorithm>

#include "cpu/interleave.h"
#include "layers/layout/axes.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// Moves axis -3 to the end. What has a single channel or a single pixel stays where it is.
class EnterLayer final : public StridedLayer {
 public:
  explicit EnterLayer(const LayerInit& init)
      : StridedLayer(init),
        input_(init.Arg("input")),
        image_(init.Bool("image")),
        interleave_(InterleaveKernelsFor(init.isa())) {}

  /// Images of a few channels, with which networks begin, have a way of their own.
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    constexpr int64_t kMostChannels = 8, kGrain = 16 * 1024;
    const Tensor& input = args.tensor(input_);
    const int rank = input.rank();
    const int64_t channels = rank < 3 ? 0 : input.dim(rank - 3);
    const bool bytes = ItemSize(input.dtype()) == 1;
    if (context.stream() != nullptr || (input.dtype() != DType::kF32 && !bytes) || channels < 2 ||
        channels > kMostChannels) {
      return StridedLayer::Forward(context, args, outputs);
    }
    const int64_t plane = input.shape().Product(rank - 2, rank);
    if (plane < 2) return StridedLayer::Forward(context, args, outputs);
    if (bytes) {
      Tensor& output = OutputTensor(outputs[0], input.dtype(), Views(args)[0].shape);
      return InterleaveBytes(context, input, channels, plane, output);
    }
    float* out = OutputTensor(outputs[0], DType::kF32, Views(args)[0].shape).data<float>();
    for (int64_t n = 0; n < input.shape().Product(0, rank - 3); ++n) {
      const float* image = input.data<float>() + n * channels * plane;
      context.ParallelFor(plane, kGrain, [&](int64_t begin, int64_t end) {
        const float* rows[kMostChannels];
        for (int64_t c = 0; c < channels; ++c) rows[c] = image + c * plane + begin;
        const int count = static_cast<int>(channels);
        interleave_.rows(rows, count, count, end - begin, out + (n * plane + begin) * channels);
      });
    }
  }

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    Shape input = input_shape(args);
    if (image_ && input.rank() != 3 && input.rank() != 4) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an input of rank 3 or 4, got " + input.ToString());
    }
    while (input.rank() < 3) input.Insert(0, 1);
    const int rank = input.rank();
    return {Strided(input).Swapped(rank - 3, rank - 2).Swapped(rank - 2, rank - 1)};
  }

 private:
  /// With three channels in one loop, which compilers make vectors of: pictures are of this kind.
  static void InterleaveColours(const std::byte* __restrict in, int64_t plane, int64_t count,
                                std::byte* __restrict out) {
    for (int64_t p = 0; p < count; ++p) {
      out[3 * p] = in[p];
      out[3 * p + 1] = in[plane + p];
      out[3 * p + 2] = in[2 * plane + p];
    }
  }

  static void InterleaveBytes(const Context& context, const Tensor& input, int64_t channels,
                              int64_t plane, Tensor& output) {
    const int64_t images = input.elements() / (channels * plane);
    context.ParallelFor(images * plane, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t n = i / plane, count = std::min(end, (n + 1) * plane) - i;
        const std::byte* in = input.raw() + n * channels * plane + i % plane;
        std::byte* out = output.raw() + i * channels;
        if (channels == 3) {
          InterleaveColours(in, plane, count, out);
        } else {
          for (int64_t c = 0; c < channels; ++c) {
            for (int64_t p = 0; p < count; ++p) out[p * channels + c] = in[c * plane + p];
          }
        }
        i += count;
      }
    });
  }

  int input_;
  bool image_;
  const InterleaveKernels& interleave_;
};

/// Moves the last axis to place -3; below rank 3 there is nothing to move.
class LeaveLayer final : public StridedLayer {
 public:
  using StridedLayer::StridedLayer;

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Strided input(input_shape(args));
    const int rank = input.rank();
    if (rank < 3) return {input};
    return {input.Swapped(rank - 2, rank - 1).Swapped(rank - 3, rank - 2)};
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(layout) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"nhwc.enter"},
                     "Moves the channels of (…, C, H, W) behind the pixels; a rank below 3 "
                     "is padded with ones first, unless it must be an image. Made by the NHWC pass")
          .Tensor("input", kAllDTypes)
          .Bool("image", false)
          .KeepsDType(),
      Create<EnterLayer>());
  registry.Add(OperatorSchema({"nhwc.leave"},
                              "Moves the channels of (…, H, W, C) before the pixels. Made by the "
                              "NHWC pass")
                   .Tensor("input", kAllDTypes)
                   .KeepsDType()
                   .F16OnCpu(),
               Create<LeaveLayer>());
}

OORT_CUDA_LAYERS(layout) {
  registry.AddDevice({"nhwc.enter", "nhwc.leave"}, oort::DeviceType::kCuda);
}
