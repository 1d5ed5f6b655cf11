// SPDX-License-Identifier: MIT
// Means of bytes under windows, summed in s32.
#include <cmath>

#include "core/scratch_vector.h"
#include "layers/layout/axes.h"
#include "layers/pooling/adaptive.h"
#include "layers/quantize/device_bytes.h"
#include "layers/quantize/quantizer.h"

namespace oort {
namespace {

/// Rows and columns of an image under one window, and what their sum is divided by.
struct MeanWindow {
  int64_t top, left, height, width;
  int64_t divisor;
};

/// Where an element of channel c of pixel p lies: c * channel + p * pixel.
struct PixelSteps {
  int64_t channel, pixel;
};

class IntegerAvgPoolLayer final : public Layer {
 public:
  IntegerAvgPoolLayer(const LayerInit& init, bool nhwc)
      : nhwc_(nhwc),
        adaptive_(!init.Constant("output_size").IsNone()),
        output_size_(init.Constant("output_size")),
        result_(ParseDType(init.String("dtype"))),
        in_{CheckedScale(init.Float("input_scale")),
            static_cast<int32_t>(init.Int("input_zero_point"))},
        out_{CheckedScale(init.Float("scale")), CheckedZeroPoint(init.Int("zero_point"), result_)} {
    if (adaptive_ != init.Constant("kernel_size").IsNone()) {
      throw Error(ErrorCode::kInvalidModel, "expected either an output_size or a kernel_size");
    }
    if (!adaptive_) {
      window_.emplace(init, 2);
      window_->KernelElements();  // the divisor must be representable
      divisor_.emplace(init);
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    CheckedZeroPoint(in_.zero_point, args.tensor(0).dtype());
    const Shape output = adaptive_ ? Adaptive(args).output : Windows(args).output;
    constexpr int64_t kMostPixels = int64_t{1} << 23;
    if (NhwcImage(nhwc_ ? args.shape(0) : ToNhwc(args.shape(0))).pixels() > kMostPixels) {
      throw Error(ErrorCode::kUnsupported, "expected at most " + std::to_string(kMostPixels) +
                                               " pixels, whose sums fit into 32 bits, got " +
                                               args.shape(0).ToString());
    }
    return {Tensor::Meta(result_, nhwc_ ? ToNhwc(output) : output)};
  }

  LayerTraits Traits() const override { return {.either_device = true}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    if (context.stream() != nullptr) {
      return MeansOfBytesOnDevice(*context.stream(), OnDevice(args), args.tensor(0), output);
    }
    const NhwcImage in(nhwc_ ? args.shape(0) : ToNhwc(args.shape(0)));
    const NhwcImage out(nhwc_ ? output.shape() : ToNhwc(output.shape()));
    const bool is_signed = args.tensor(0).dtype() == DType::kI8;
    context.ParallelFor(
        out.batch * out.pixels(), 1 + 4096 / in.channels, [&](int64_t begin, int64_t end) {
          ScratchVector<int32_t> sums(static_cast<size_t>(in.channels));
          for (int64_t i = begin; i < end; ++i) {
            const int64_t n = i / out.pixels(), pixel = i % out.pixels();
            const MeanWindow window = WindowAt(args, pixel / out.width, pixel % out.width);
            const int64_t image = n * in.pixels() * in.channels;
            if (is_signed) {
              Sum(args.tensor(0).data<int8_t>() + image, in, window, sums.data());
            } else {
              Sum(args.tensor(0).data<uint8_t>() + image, in, window, sums.data());
            }
            Finish(sums.data(), window, out, pixel,
                   reinterpret_cast<uint8_t*>(output.raw()) + n * out.pixels() * out.channels);
          }
        });
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = static_cast<double>(args.tensor(0).elements());
    return cost;
  }

 private:
  Shape Nchw(const Args& args) const { return nhwc_ ? ToNchw(args.shape(0)) : args.shape(0); }
  AdaptiveGeometry Adaptive(const Args& args) const { return AdaptTo(Nchw(args), output_size_, 2); }
  PoolGeometry Windows(const Args& args) const { return window_->Geometry(Nchw(args)); }

  DeviceByteMeans OnDevice(const Args& args) const {
    DevicePool pool =
        adaptive_ ? DevicePool(Adaptive(args), false) : DevicePool(Windows(args), false);
    if (divisor_) {
      pool.include_pad = divisor_->include_pad;
      pool.override_with = divisor_->override_with;
    }
    DeviceByteMeans means{.pool = pool};
    const NhwcImage in(nhwc_ ? args.shape(0) : ToNhwc(args.shape(0)));
    means.channels = in.channels;
    const int64_t out_pixels = pool.axes[1].window.out * pool.axes[2].window.out;
    means.in_channel = nhwc_ ? 1 : in.pixels();
    means.in_pixel = nhwc_ ? in.channels : 1;
    means.out_channel = nhwc_ ? 1 : out_pixels;
    means.out_pixel = nhwc_ ? in.channels : 1;
    means.in_scale = static_cast<double>(in_.scale);
    means.out_scale = static_cast<double>(out_.scale);
    means.in_zero_point = in_.zero_point;
    means.out_zero_point = out_.zero_point;
    means.low = static_cast<float>(LeastByte(result_) - out_.zero_point);
    means.high = static_cast<float>(MostByte(result_) - out_.zero_point);
    return means;
  }

  MeanWindow WindowAt(const Args& args, int64_t y, int64_t x) const {
    if (adaptive_) {
      const AdaptiveGeometry g = Adaptive(args);
      const AdaptiveAxis &rows = g.axes[1], &columns = g.axes[2];
      MeanWindow window{rows.Begin(y), columns.Begin(x), rows.End(y) - rows.Begin(y),
                        columns.End(x) - columns.Begin(x), 1};
      window.divisor = window.height * window.width;
      return window;
    }
    const PoolGeometry g = Windows(args);
    const WindowAxis::Taps rows = g.window[1].At(y), columns = g.window[2].At(x);
    const PoolDivisor divisor(g.window, *divisor_);
    return {rows.begin, columns.begin, rows.count, columns.count,
            divisor.Along(1, y) * divisor.Along(2, x)};
  }

  PixelSteps Steps(const NhwcImage& image) const {
    return nhwc_ ? PixelSteps{1, image.channels} : PixelSteps{image.pixels(), 1};
  }

  /// Less the zero point, which the padding is.
  template <typename T>
  void Sum(const T* image, const NhwcImage& in, const MeanWindow& window, int32_t* sums) const {
    const PixelSteps steps = Steps(in);
    for (int64_t c = 0; c < in.channels; ++c) sums[c] = 0;
    for (int64_t y = 0; y < window.height; ++y) {
      for (int64_t x = 0; x < window.width; ++x) {
        const T* at = image + ((window.top + y) * in.width + window.left + x) * steps.pixel;
        for (int64_t c = 0; c < in.channels; ++c) {
          sums[c] += int32_t{at[c * steps.channel]} - in_.zero_point;
        }
      }
    }
  }

  void Finish(const int32_t* sums, const MeanWindow& window, const NhwcImage& out, int64_t pixel,
              uint8_t* bytes) const {
    const PixelSteps steps = Steps(out);
    const float factor =
        static_cast<float>(static_cast<double>(in_.scale) / static_cast<double>(out_.scale) /
                           static_cast<double>(window.divisor));
    const float low = static_cast<float>(LeastByte(result_) - out_.zero_point);
    const float high = static_cast<float>(MostByte(result_) - out_.zero_point);
    for (int64_t c = 0; c < out.channels; ++c) {
      float value = static_cast<float>(sums[c]) * factor;
      value = value > low ? value : low;
      value = value < high ? value : high;
      bytes[pixel * steps.pixel + c * steps.channel] =
          static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(value)) + out_.zero_point);
    }
  }

  bool nhwc_, adaptive_;
  Value output_size_;
  DType result_;
  Quantizer in_, out_;
  std::optional<WindowParams> window_;
  std::optional<PoolDivisorParams> divisor_;
};

LayerCreator CreateIntegerAvgPool(bool nhwc) {
  return
      [nhwc](const LayerInit& init) { return std::make_unique<IntegerAvgPoolLayer>(init, nhwc); };
}

OperatorSchema IntegerAvgPoolSchema(const char* type, const char* doc) {
  return OperatorSchema({type}, doc)
      .Tensor("input", kBytes)
      .Any("output_size")
      .Nullable()
      .Ints("kernel_size", 2)
      .Nullable()
      .Ints("stride", 2)
      .Nullable()
      .Ints("padding", 2, Value(0))
      .Bool("ceil_mode", false)
      .Bool("count_include_pad", true)
      .Int("divisor_override")
      .Nullable()
      .Float("input_scale")
      .Int("input_zero_point", 0)
      .AtLeast(-128)
      .AtMost(255)
      .String("dtype")
      .OneOf({"u8", "i8"})
      .Float("scale")
      .Int("zero_point", 0);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(integer_pool) {
  using namespace oort;
  registry.Add(IntegerAvgPoolSchema("oort.IntegerAvgPool2d",
                                    "The mean of bytes under each window, or of as many windows as "
                                    "output_size says, as bytes. Made by passes")
                   .HasNhwcForm("nhwc.IntegerAvgPool2d"),
               CreateIntegerAvgPool(false));
  registry.Add(IntegerAvgPoolSchema("nhwc.IntegerAvgPool2d",
                                    "oort.IntegerAvgPool2d of (…, H, W, C). Made by the NHWC pass"),
               CreateIntegerAvgPool(true));
}

OORT_CUDA_LAYERS(integer_pool) {
  registry.AddDevice({"oort.IntegerAvgPool2d", "nhwc.IntegerAvgPool2d"}, oort::DeviceType::kCuda);
}
