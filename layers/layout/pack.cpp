// SPDX-License-Identifier: MIT
#include "layers/layout/pack_kernels.h"
#include "layers/layout/pack_shape.h"

namespace oort {
namespace {

class PackLayer final : public Layer {
 public:
  explicit PackLayer(const LayerInit& init) : shape_(init), f16_(FindPackKernels(init.isa())) {}

  std::vector<Value> Infer(const Args& args) const override { return {shape_.Output(args)}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const bool rounds =
        args.tensor(0).dtype() == DType::kF32 && output.dtype() == DType::kF16 && f16_ != nullptr;
    if (rounds && output.dim(output.rank() - 1) <= kFewChannels) {
      return Round(context, args.tensor(0), output);
    }
    const Tensor input = args.tensor(0).To(DType::kF32);
    Tensor packed = Tensor::Zeros(DType::kF32, output.shape());
    const int rank = input.rank();
    const int64_t channels = input.dim(rank - 3), plane = input.shape().Product(rank - 2, rank);
    const int64_t padded = output.dim(rank - 1);
    const float* from = input.data<float>();
    for (int64_t i = 0; i < input.shape().Product(0, rank - 3); ++i) {
      float* to = packed.data<float>() + i * plane * padded;
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t pixel = 0; pixel < plane; ++pixel) to[pixel * padded + c] = *from++;
      }
    }
    CopyElements(packed, output);
  }

 private:
  static constexpr int64_t kFewChannels = 16;

  void Round(const Context& context, const Tensor& input, Tensor& output) const {
    constexpr int64_t kGrain = 16 * 1024;
    const int rank = input.rank();
    const int64_t channels = input.dim(rank - 3), plane = input.shape().Product(rank - 2, rank);
    const int64_t padded = output.dim(rank - 1);
    for (int64_t n = 0; n < input.shape().Product(0, rank - 3); ++n) {
      const float* image = input.data<float>() + n * channels * plane;
      Half* out = output.data<Half>() + n * plane * padded;
      context.ParallelFor(plane, kGrain, [&](int64_t begin, int64_t end) {
        const float* planes[kFewChannels];
        for (int64_t c = 0; c < channels; ++c) planes[c] = image + c * plane + begin;
        f16_->pixels(planes, static_cast<int>(channels), static_cast<int>(padded), end - begin,
                     out + begin * padded);
      });
    }
  }

  PackShape shape_;
  const PackKernelsOf<Half>* f16_;  // null where there are none
};

}  // namespace
}  // namespace oort

OORT_LAYERS(pack) {
  using namespace oort;
  registry.Add(OperatorSchema({"nhwc.pack"},
                              "Moves the channels of (…, C, H, W) behind the pixels, fills them up "
                              "with zeros and rounds them. Made by the narrow-floats pass")
                   .Tensor("input", kF32Only | DType::kF16 | DType::kBF16)
                   .DTypeName("dtype")
                   .Int("channels")
                   .AtLeast(1),
               Create<PackLayer>());
}
