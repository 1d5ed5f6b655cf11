// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "layers/composite/float_dtypes.h"
#include "layers/pooling/nhwc/nhwc_pool_kernels.h"
#include "layers/pooling/nhwc/pooled.h"

namespace oort {
namespace {

enum class PixelFold { kMean, kMax };

class NhwcAdaptivePool final : public PerElementLayer<1> {
 public:
  NhwcAdaptivePool(const LayerInit& init, PixelFold fold) : fold_(fold), kernels_(init.isa()) {
    if (fold == PixelFold::kMax) ThrowIfIndices(init);
  }

  LayerTraits Traits() const override { return {.native_f16 = kernels_.takes_f16()}; }

  std::vector<Value> Infer(const Args& args) const override { return {Adapted(args)}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (args.tensor(0).dtype() == DType::kF16) {
      ForwardAs<Half>(context, args, outputs[0].AsTensor());
    } else {
      ForwardAs<float>(context, args, outputs[0].AsTensor());
    }
  }

 private:
  template <typename T>
  void ForwardAs(const Context& context, const Args& args, Tensor& output) const {
    const Tensor& input = args.tensor(0);
    if (output.elements() == 0) return;
    const AdaptiveGeometry geometry = AdaptedGeometry(args);
    const NhwcImage image(input.shape());
    // One pixel for all: its channels are shared out, not its rows.
    constexpr int64_t kLine = 16, kBlock = 64;
    const int64_t each = CeilDivide(image.channels, int64_t{context.threads()});
    const int64_t block = geometry.out_plane() == 1
                              ? std::min(kBlock, CeilDivide(each, kLine) * kLine)
                              : image.channels;
    const int64_t blocks = (image.channels + block - 1) / block;
    const int64_t rows = geometry.axes[1].out;
    const int64_t task = (image.pixels() / rows + geometry.axes[2].out) * block;
    context.ParallelFor(
        image.batch * rows * blocks, 32768 / task + 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / blocks, channel = i % blocks * block;
            PoolOneRow(geometry, image, row, channel, std::min(block, image.channels - channel),
                       input.data<T>(), output.data<T>());
          }
        });
  }

  /// `count` channels from `channel` on of all outputs in row `row` of all images.
  template <typename T>
  void PoolOneRow(const AdaptiveGeometry& geometry, const NhwcImage& image, int64_t row,
                  int64_t channel, int64_t count, const T* in, T* out) const {
    const AdaptiveAxis &height = geometry.axes[1], &width = geometry.axes[2];
    const int64_t y = row % height.out;
    const T* plane = in + row / height.out * image.pixels() * image.channels;
    for (int64_t x = 0; x < width.out; ++x) {
      const int64_t top = height.Begin(y), left = width.Begin(x);
      PixelWindowsOf<T> windows;
      windows.first = plane + (top * width.in + left) * image.channels + channel;
      windows.height = height.End(y) - top;
      windows.row_step = width.in * image.channels;
      windows.width = width.End(x) - left;
      windows.column_step = image.channels;
      windows.count = 1;
      windows.step = 0;
      windows.channels = count;
      windows.out = out + (row * width.out + x) * image.channels + channel;
      windows.out_step = 0;
      if (fold_ == PixelFold::kMax) {
        kernels_.For<T>().max(windows);
      } else {
        kernels_.For<T>().mean(windows, static_cast<float>(windows.height * windows.width));
      }
    }
  }

  PixelFold fold_;
  const NhwcPoolTables kernels_;
};

LayerCreator CreateNhwcAdaptive(PixelFold fold) {
  return [fold](const LayerInit& init) { return std::make_unique<NhwcAdaptivePool>(init, fold); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(nhwc_adaptive_pool) {
  using namespace oort;
  static constexpr DTypeSet kDTypes = kF32Only | DType::kF16 | DType::kBF16;
  const OperatorSchema mean =
      OperatorSchema({"nhwc.AdaptiveAvgPool2d"},
                     "nn.AdaptiveAvgPool2d of (…, H, W, C). Made by the NHWC pass")
          .KeepsDType()
          .F16OnCpu()
          .Tensor("input", kDTypes)
          .Any("output_size")
          .Dynamic();
  registry.Add(mean, WithHalves(mean, CreateNhwcAdaptive(PixelFold::kMean)));
  const OperatorSchema max =
      OperatorSchema({"nhwc.AdaptiveMaxPool2d"},
                     "nn.AdaptiveMaxPool2d of (…, H, W, C). Made by the NHWC pass")
          .KeepsDType()
          .F16OnCpu()
          .Tensor("input", kDTypes)
          .Any("output_size")
          .Dynamic()
          .Bool("return_indices", false);
  registry.Add(max, WithHalves(max, CreateNhwcAdaptive(PixelFold::kMax)));
}
