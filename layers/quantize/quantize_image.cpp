// SPDX-License-Identifier: MIT
// Pictures become bytes on their way into NHWC layout.
#include <algorithm>

#include "core/scratch_vector.h"
#include "layers/layout/axes.h"
#include "layers/quantize/device_bytes.h"
#include "layers/quantize/quantizer.h"

namespace oort {
namespace {

class QuantizeImageLayer final : public Layer {
 public:
  explicit QuantizeImageLayer(const LayerInit& init)
      : kernels_(QuantizeKernelsFor(init.isa())),
        dtype_(ParseDType(init.String("dtype"))),
        quantizer_{CheckedScale(init.Float("scale")),
                   CheckedZeroPoint(init.Int("zero_point"), dtype_)},
        given_(init.Int("input_channels")),
        channels_(init.Int("channels")) {
    if (given_ > channels_) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected at least as many channels as those of the "
                  "input, " +
                      std::to_string(given_) + ", got " + std::to_string(channels_));
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(0);
    const int rank = input.rank();
    if ((rank != 3 && rank != 4) || input[rank - 3] != given_) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input of rank 3 or 4 with " +
                                                   std::to_string(given_) + " channels, got " +
                                                   input.ToString());
    }
    Shape output = ToNhwc(input);
    output[rank - 1] = channels_;
    return {Tensor::Meta(dtype_, output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const Tensor& input = args.tensor(0);
    const float inverse = 1.0f / quantizer_.scale;
    const int rank = input.rank();
    const int64_t plane = input.shape().Product(rank - 2, rank);
    if (context.stream() != nullptr) {
      return QuantizeImageOnDevice(*context.stream(), input, inverse, quantizer_.zero_point,
                                   output);
    }
    constexpr int64_t kBlock = 1024;
    const int64_t blocks = (plane + kBlock - 1) / kBlock;
    const int64_t images = output.elements() / plane / channels_;
    context.ParallelFor(images * blocks, 8, [&](int64_t begin, int64_t end) {
      ScratchVector<std::byte> row(static_cast<size_t>(kBlock));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / blocks, first = task % blocks * kBlock;
        const int64_t count = std::min(kBlock, plane - first);
        const float* x = input.data<float>() + image * given_ * plane + first;
        std::byte* y = output.raw() + (image * plane + first) * channels_;
        std::fill_n(y, count * channels_, static_cast<std::byte>(quantizer_.zero_point));
        for (int64_t c = 0; c < given_; ++c) {
          kernels_.quantize(x + c * plane, count, inverse, quantizer_.zero_point, LeastByte(dtype_),
                            MostByte(dtype_), row.data());
          for (int64_t i = 0; i < count; ++i) y[i * channels_ + c] = row[static_cast<size_t>(i)];
        }
      }
    });
  }

 private:
  const QuantizeKernels& kernels_;
  DType dtype_;
  Quantizer quantizer_;
  int64_t given_, channels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(quantize_image) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"nhwc.Quantize"},
                     "oort.Quantize of (…, C, H, W) as (…, H, W, channels), of which those "
                     "beyond C are the zero point. Made by passes")
          .Tensor("input", kF32Only)
          .Float("scale")
          .Int("zero_point", 0)
          .String("dtype")
          .OneOf({"u8", "i8"})
          .Int("input_channels")
          .AtLeast(1)
          .Int("channels")
          .AtLeast(1),
      Create<QuantizeImageLayer>());
}

OORT_CUDA_LAYERS(quantize_image) { registry.AddDevice({"nhwc.Quantize"}, oort::DeviceType::kCuda); }
