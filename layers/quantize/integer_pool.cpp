// SPDX-License-Identifier: MIT
// Means of bytes under windows, summed in s32.
#include <algorithm>
#include <cmath>

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
        out_(OutputOf(init, result_)) {
    if (result_ == DType::kF32 && init.device().type != DeviceType::kCpu) {
      throw Error(ErrorCode::kUnsupported, "means of bytes are bytes on a GPU, got dtype=f32");
    }
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
    // By channels, too: there may be one window alone.
    const int64_t parts = (in.channels + kMostChannels - 1) / kMostChannels;
    const int64_t work = kMostChannels * (1 + in.pixels() / out.pixels());
    context.ParallelFor(
        out.batch * out.pixels() * parts, 1 + 32768 / work, [&](int64_t begin, int64_t end) {
          int32_t sums[kMostChannels];
          for (int64_t i = begin; i < end; ++i) {
            const int64_t n = i / parts / out.pixels(), pixel = i / parts % out.pixels();
            const ChannelRange channels = RangeOf(i % parts, in.channels);
            const MeanWindow window = WindowAt(args, pixel / out.width, pixel % out.width);
            const int64_t image = n * in.pixels() * in.channels;
            if (is_signed) {
              Sum(args.tensor(0).data<int8_t>() + image, in, window, channels, sums);
            } else {
              Sum(args.tensor(0).data<uint8_t>() + image, in, window, channels, sums);
            }
            Finish(sums, window, out, pixel, channels, n * out.pixels() * out.channels, output);
          }
        });
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = static_cast<double>(args.tensor(0).elements());
    return cost;
  }

 private:
  /// Channels whose sums are made together.
  struct ChannelRange {
    int64_t first, count;
  };
  static constexpr int64_t kMostChannels = 64;
  static ChannelRange RangeOf(int64_t part, int64_t channels) {
    const int64_t first = part * kMostChannels;
    return {first, std::min(kMostChannels, channels - first)};
  }

  static Quantizer OutputOf(const LayerInit& init, DType result) {
    if (result == DType::kF32) return {1, 0};
    return {CheckedScale(init.Float("scale")), CheckedZeroPoint(init.Int("zero_point"), result)};
  }

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
  void Sum(const T* image, const NhwcImage& in, const MeanWindow& window, ChannelRange channels,
           int32_t* sums) const {
    const PixelSteps steps = Steps(in);
    for (int64_t c = 0; c < channels.count; ++c) sums[c] = 0;
    for (int64_t y = 0; y < window.height; ++y) {
      for (int64_t x = 0; x < window.width; ++x) {
        const T* at = image + ((window.top + y) * in.width + window.left + x) * steps.pixel +
                      channels.first * steps.channel;
        if (nhwc_) {
          for (int64_t c = 0; c < channels.count; ++c) sums[c] += int32_t{at[c]};
        } else {
          for (int64_t c = 0; c < channels.count; ++c) sums[c] += int32_t{at[c * steps.channel]};
        }
      }
    }
    const auto zeros = static_cast<int32_t>(window.height * window.width * in_.zero_point);
    for (int64_t c = 0; c < channels.count; ++c) sums[c] -= zeros;
  }

  void Finish(const int32_t* sums, const MeanWindow& window, const NhwcImage& out, int64_t pixel,
              ChannelRange channels, int64_t image, Tensor& output) const {
    const PixelSteps steps = Steps(out);
    const int64_t begin = image + pixel * steps.pixel + channels.first * steps.channel;
    const float factor =
        static_cast<float>(static_cast<double>(in_.scale) / static_cast<double>(out_.scale) /
                           static_cast<double>(window.divisor));
    if (result_ == DType::kF32) {
      float* means = output.data<float>() + begin;
      for (int64_t c = 0; c < channels.count; ++c) {
        means[c * steps.channel] = static_cast<float>(sums[c]) * factor;
      }
      return;
    }
    auto* bytes = reinterpret_cast<uint8_t*>(output.raw()) + begin;
    const float low = static_cast<float>(LeastByte(result_) - out_.zero_point);
    const float high = static_cast<float>(MostByte(result_) - out_.zero_point);
    for (int64_t c = 0; c < channels.count; ++c) {
      float value = static_cast<float>(sums[c]) * factor;
      value = value > low ? value : low;
      value = value < high ? value : high;
      bytes[c * steps.channel] =
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
      .OneOf({"u8", "i8", "f32"})
      .Float("scale", 1)
      .Int("zero_point", 0);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(integer_pool) {
  using namespace oort;
  registry.Add(IntegerAvgPoolSchema("oort.IntegerAvgPool2d",
                                    "The mean of bytes under each window, or of as many windows as "
                                    "output_size says, as bytes or f32. Made by passes")
                   .HasNhwcForm("nhwc.IntegerAvgPool2d"),
               CreateIntegerAvgPool(false));
  registry.Add(IntegerAvgPoolSchema("nhwc.IntegerAvgPool2d",
                                    "oort.IntegerAvgPool2d of (…, H, W, C). Made by the NHWC pass"),
               CreateIntegerAvgPool(true));
}

OORT_CUDA_LAYERS(integer_pool) {
  registry.AddDevice({"oort.IntegerAvgPool2d", "nhwc.IntegerAvgPool2d"}, oort::DeviceType::kCuda);
}
