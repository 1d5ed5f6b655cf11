// SPDX-License-Identifier: MIT
// Pictures become bytes on their way into NHWC layout.
#include <algorithm>

#include "core/checked.h"
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
        channels_(init.Int("channels")),
        padding_(init.Ints("padding")) {
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
    output[rank - 3] = Padded(output[rank - 3], padding_[0]);
    output[rank - 2] = Padded(output[rank - 2], padding_[1]);
    output[rank - 1] = channels_;
    return {Tensor::Meta(dtype_, output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const Tensor& input = args.tensor(0);
    const float inverse = 1.0f / quantizer_.scale;
    if (context.stream() != nullptr) {
      return QuantizeImageOnDevice(*context.stream(), input, inverse, quantizer_.zero_point,
                                   output);
    }
    const int rank = input.rank();
    const int64_t height = input.dim(rank - 2), width = input.dim(rank - 1);
    const int64_t rows = output.dim(rank - 3), row_bytes = output.dim(rank - 2) * channels_;
    const int64_t all = output.elements() / row_bytes;
    context.ParallelFor(all, 4096 / row_bytes + 1, [&](int64_t begin, int64_t end) {
      ScratchVector<std::byte> line(static_cast<size_t>(width));
      for (int64_t r = begin; r < end; ++r) {
        const int64_t image = r / rows, y = r % rows - padding_[0];
        std::byte* to = output.raw() + r * row_bytes;
        std::fill_n(to, row_bytes, static_cast<std::byte>(quantizer_.zero_point));
        if (y < 0 || y >= height || width == 0) continue;
        to += padding_[1] * channels_;
        for (int64_t c = 0; c < given_; ++c) {
          const float* x = input.data<float>() + ((image * given_ + c) * height + y) * width;
          kernels_.quantize(x, width, inverse, quantizer_.zero_point, LeastByte(dtype_),
                            MostByte(dtype_), line.data());
          for (int64_t i = 0; i < width; ++i) to[i * channels_ + c] = line[static_cast<size_t>(i)];
        }
      }
    });
  }

 private:
  static int64_t Padded(int64_t extent, int64_t padding) {
    return CheckedAdd(extent, CheckedMultiply<int64_t>(2, padding));
  }

  const QuantizeKernels& kernels_;
  DType dtype_;
  Quantizer quantizer_;
  int64_t given_, channels_;
  std::vector<int64_t> padding_;  // above and below, at the left and the right
};

}  // namespace
}  // namespace oort

OORT_LAYERS(quantize_image) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"nhwc.Quantize"},
                     "oort.Quantize of (…, C, H, W) as (…, H, W, channels). Channels beyond C and "
                     "what is padded around are the zero point. Made by passes")
          .Tensor("input", kF32Only)
          .Float("scale")
          .Int("zero_point", 0)
          .String("dtype")
          .OneOf({"u8", "i8"})
          .Int("input_channels")
          .AtLeast(1)
          .Int("channels")
          .AtLeast(1)
          .Ints("padding", 2, Value(0))
          .AtLeast(0),
      Create<QuantizeImageLayer>());
}

OORT_CUDA_LAYERS(quantize_image) { registry.AddDevice({"nhwc.Quantize"}, oort::DeviceType::kCuda); }
