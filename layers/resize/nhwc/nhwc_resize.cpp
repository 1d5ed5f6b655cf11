// SPDX-License-Identifier: MIT
// Resizing of NHWC images: all channels of a pixel are copied or blended together.
#include <algorithm>
#include <array>

#include "core/dispatch.h"
#include "layers/composite/float_dtypes.h"
#include "layers/resize/nhwc/resized.h"
#include "layers/resize/resize_kernels.h"

namespace oort {
namespace {

class NhwcResize final : public Layer {
 public:
  explicit NhwcResize(const LayerInit& init)
      : params_(init, nullptr, false, false), kernels_(ResizeKernelsFor(init.isa())) {}

  std::vector<Value> Infer(const Args& args) const override {
    const DType dtype = args.tensor(0).dtype();
    if (dtype != DType::kF32 && !params_.Copies()) {
      throw Error(ErrorCode::kUnsupported, "in NHWC mode " + params_.mode_name() +
                                               " does not take dtype " + std::string(Name(dtype)) +
                                               "; load without the pass nhwc");
    }
    return {ResizedImage(params_, args)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const ResizeGeometry geometry = Geometry(args);
    if (params_.Copies()) {
      VisitItemSize(input.dtype(), [&](auto tag) {
        Copy<typename decltype(tag)::Type>(context, geometry, input, output);
      });
    } else {
      Blend(context, geometry, params_.AlignCorners(args), input, output);
    }
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const double taps = params_.mode() == ResizeMode::kCubic ? 16 : 4;
    if (!params_.Copies()) {
      cost.flops = 2 * taps * static_cast<double>(outputs[0].AsTensor().elements());
    }
    return cost;
  }

 private:
  ResizeGeometry Geometry(const Args& args) const { return PixelGeometry(params_, args); }

  /// Calls body(image, output row, where its pixels go) for each row of outputs. T has the size of
  /// an element.
  template <typename T, typename Body>
  static void ForRows(const Context& context, const ResizeGeometry& geometry, const Tensor& input,
                      Tensor& output, const Body& body) {
    const NhwcImage image(input.shape());
    const int64_t rows = geometry.axes[1].out, row = geometry.axes[2].out * image.channels;
    context.ParallelFor(image.batch * rows, 16384 / row + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* pixels =
            reinterpret_cast<const T*>(input.raw()) + r / rows * image.pixels() * image.channels;
        body(pixels, r % rows, reinterpret_cast<T*>(output.raw()) + r * row);
      }
    });
  }

  template <typename T>
  void Copy(const Context& context, const ResizeGeometry& geometry, const Tensor& input,
            Tensor& output) const {
    const bool exact = params_.mode() == ResizeMode::kNearestExact;
    const std::vector<int64_t> ys = NearestIndices<float>(geometry.axes[1], exact);
    const std::vector<int64_t> xs = NearestIndices<float>(geometry.axes[2], exact);
    const int64_t channels = input.dim(3), width = input.dim(2);
    ForRows<T>(context, geometry, input, output, [&](const T* image, int64_t y, T* out) {
      const T* row = image + ys[static_cast<size_t>(y)] * width * channels;
      for (int64_t x : xs) out = std::copy_n(row + x * channels, channels, out);
    });
  }

  void Blend(const Context& context, const ResizeGeometry& geometry, bool align_corners,
             const Tensor& input, Tensor& output) const {
    const AxisTaps<float> down(geometry.axes[1], params_.mode(), align_corners);
    const AxisTaps<float> along(geometry.axes[2], params_.mode(), align_corners);
    const int64_t channels = input.dim(3), width = input.dim(2);
    const int64_t out_height = geometry.axes[1].out, out_width = geometry.axes[2].out;
    const auto blend = [&](const float* image, int64_t y, float* out) {
      for (int64_t x = 0; x < out_width; ++x, out += channels) {
        std::array<const float*, 16> pixels;
        std::array<float, 16> weights;
        size_t taps = 0;
        for (int i = 0; i < down.taps; ++i) {
          const size_t a = static_cast<size_t>(i * out_height + y);
          for (int j = 0; j < along.taps; ++j, ++taps) {
            const size_t b = static_cast<size_t>(j * out_width + x);
            pixels[taps] = image + (down.index[a] * width + along.index[b]) * channels;
            weights[taps] = down.weight[a] * along.weight[b];
          }
        }
        kernels_.blend_rows(pixels.data(), weights.data(), static_cast<int>(taps), out, channels);
      }
    };
    ForRows<float>(context, geometry, input, output, blend);
  }

  ResizeParams params_;
  const ResizeKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(nhwc_resize) {
  using namespace oort;
  const OperatorSchema schema =
      OperatorSchema({"nhwc.Upsample"}, "nn.Upsample of (N, H, W, C). Made by the NHWC pass")
          .Tensor("input", kF32Only | DType::kF16 | DType::kBF16 | DType::kU8 | DType::kI8)
          .Ints("size")
          .Nullable()
          .Floats("scale_factor")
          .Nullable()
          .String("mode", "nearest")
          .OneOf({"nearest", "nearest-exact", "bilinear", "bicubic"})
          .Bool("align_corners")
          .Nullable()
          .Bool("recompute_scale_factor")
          .Nullable()
          .KeepsDType();
  registry.Add(schema, WithHalves(schema, Create<NhwcResize>()));
}
