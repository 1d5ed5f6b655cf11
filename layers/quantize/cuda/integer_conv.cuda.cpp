// SPDX-License-Identifier: MIT
// Integer convolutions and dense layers on a GPU.
#include <limits>
#include <optional>

#include "core/checked.h"
#include "cuda/memory.h"
#include "layers/convolution/conv_algorithm.h"
#include "layers/convolution/cuda/narrow_conv.h"
#include "layers/quantize/cuda/byte_conv.h"
#include "layers/quantize/integer_shape.h"

namespace oort {
namespace {

int ByteInt(int64_t value) {
  if (value <= std::numeric_limits<int>::max() / 4) return static_cast<int>(value);
  throw Error(ErrorCode::kUnsupported,
              "the convolution is too large for the GPU: " + std::to_string(value));
}

cuda::ConvWalk ByteWalk(const ConvAxis& axis) {
  return {ByteInt(axis.in),     ByteInt(axis.out),      ByteInt(axis.kernel),
          ByteInt(axis.stride), ByteInt(axis.dilation), ByteInt(axis.pad)};
}

/// Channels of a group as tiles read them: whole words, where pixels can be copied to make them so.
int64_t PaddedChannels(int64_t channels, int64_t groups) {
  if (groups > 1 || channels % 4 == 0) return channels;
  const int64_t unit = channels <= 16 ? 4 : 16;
  return CeilDivide(channels, unit) * unit;
}

/// The algorithms for one call, from top to bottom.
class ByteProblem {
 public:
  ByteProblem(const cuda::ByteConvCall& call, int device, bool depthwise)
      : call_(call), device_(device), depthwise_(depthwise) {}
  const cuda::ByteConvCall& call() const { return call_; }
  int device() const { return device_; }
  bool depthwise() const { return depthwise_; }

 private:
  cuda::ByteConvCall call_;
  int device_;
  bool depthwise_;
};

class ByteAlgorithm : public ConvAlgorithm<ByteProblem> {
 public:
  using ConvAlgorithm::ConvAlgorithm;
  bool Wins(const ByteProblem&) const override { return true; }
};
class ByteDepthwiseAlgorithm final : public ByteAlgorithm {
 public:
  ByteDepthwiseAlgorithm() : ByteAlgorithm(kConvDepthwise) {}
  bool Accepts(const ByteProblem& p) const override { return p.depthwise(); }
};
class ByteGemmAlgorithm final : public ByteAlgorithm {
 public:
  ByteGemmAlgorithm() : ByteAlgorithm(kConvImplicitGemm) {}
  bool Accepts(const ByteProblem& p) const override { return cuda::ConvolvesBytes(p.call()); }
};
class ByteDirectAlgorithm final : public ByteAlgorithm {
 public:
  ByteDirectAlgorithm() : ByteAlgorithm(kConvDirect) {}
  bool Accepts(const ByteProblem&) const override { return true; }
};

std::span<const ByteAlgorithm* const> ByteAlgorithms() {
  // Each channel has one filter of its own, so that there is nothing for tensor cores.
  static const ByteDepthwiseAlgorithm kDepthwise;
  // All others whose channels are whole words, or were made so.
  static const ByteGemmAlgorithm kGemm;
  // What is left over: planes, groups of odd channels, images beyond 31 bits.
  static const ByteDirectAlgorithm kDirect;
  static const ByteAlgorithm* const kList[] = {&kDepthwise, &kGemm, &kDirect};
  return kList;
}

/// The arrays of an epilogue on the device.
struct DeviceNumbers {
  Tensor scale, bias, starts[2];  // for u8 and for i8
};

class CudaIntegerConv final : public Layer {
 public:
  CudaIntegerConv(const LayerInit& init, IntegerLayout layout)
      : shape_(init, layout), device_(init.device()) {
    if (layout != IntegerLayout::kRows) wanted_ = ReadConvAlgorithm(init);
    const IntegerFilters filters = shape_.Filters(init);
    const Tensor& weight = filters.weight;
    const int64_t groups = shape_.params().groups();
    const int64_t taps = CheckedMultiply(weight.dim(2), weight.dim(3));
    if (CheckedMultiply(weight.dim(1), taps) > kMostIntegerTerms) {
      throw Error(ErrorCode::kUnsupported, "has filters of too many weights");
    }
    is_depthwise_ = layout == IntegerLayout::kNhwc && groups > 1 && weight.dim(1) == 1 &&
                    weight.dim(0) == groups;
    group_out_ = weight.dim(0) / groups;
    padded_out_ = CeilDivide(group_out_, cuda::kFilterGroup) * cuda::kFilterGroup;
    tap_channels_ = PaddedChannels(weight.dim(1), groups);
    numbers_ = IntegerNumbersOf(
        shape_.numbers(), filters.scales.span<float>(),
        filters.bias.defined() ? filters.bias.span<float>() : std::span<const float>());
    const bool tiled = !is_depthwise_ || !wanted_.empty();
    each_ = Upload(weight, 1, AlignUp(static_cast<size_t>(weight.dim(0)), 4));
    if (is_depthwise_) depthwise_ = PackDepthwise(weight);
    if (tiled) {
      padded_ = Upload(weight, groups, static_cast<size_t>(groups * padded_out_));
      packed_ = Pack(weight, {0, weight.dim(3), tap_channels_});
      sums_ = WeightSums(weight);
    }
    PackPairs(weight);
    numbers_.scale = numbers_.bias = {};
  }

  std::vector<Value> Infer(const Args& args) const override { return shape_.Infer(args); }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const cuda::Stream& stream = *context.stream();
    const ByteProblem problem = ProblemOf(args, output, context.workspace());
    const auto algorithms = ByteAlgorithms();
    const std::string_view name = algorithms[ChooseConv(algorithms, problem, wanted_)]->name();
    if (name == kConvDepthwise) {
      cuda::ByteConvCall call = problem.call();
      call.weight = depthwise_.raw();
      SetNumbers(call, each_);
      return cuda::ConvolveBytesDepthwise(stream, call);
    }
    if (name == kConvDirect) {
      cuda::ByteConvCall call = CallOf(args, output);
      SetNumbers(call, each_);
      return cuda::ConvolveBytesPlain(stream, call);
    }
    if (IsStaged()) {
      const Tensor& input = args.tensor(shape_.input());
      const int64_t channels = shape_.weight_shape()[1];
      cuda::PadPixels(stream, input.raw(), input.elements() / channels, ByteInt(channels),
                      ByteInt(tap_channels_), context.workspace());
    }
    const cuda::ByteConvCall& call = problem.call();
    cuda::ConvolveBytes(stream, call, cuda::ChooseBytePlan(call, device_.index));
  }

  size_t Workspace(const Args& args, int) const override {
    if (!IsStaged()) return 0;
    const int64_t pixels = args.tensor(shape_.input()).elements() / shape_.weight_shape()[1];
    return static_cast<size_t>(CheckedMultiply(pixels, tap_channels_));
  }

  bool Packs(int argument) const override { return argument == shape_.weight(); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * shape_.Geometry(args).multiplications();
    const auto algorithms = ByteAlgorithms();
    const ByteProblem problem = ProblemOf(args, outputs[0].AsTensor(), nullptr);
    cost.algorithm = algorithms[ChooseConv(algorithms, problem, wanted_)]->name();
    return cost;
  }

 private:
  bool IsPlanar() const { return shape_.layout() == IntegerLayout::kNchw; }
  /// Whether pixels get more channels before tiles read them.
  bool IsStaged() const {
    return packed_.defined() && !IsPlanar() && tap_channels_ != shape_.weight_shape()[1];
  }

  /// Filters as (row, column, channel): where column s of a row stands, and how many there are.
  struct TapLayout {
    int64_t lead, columns, channels;
  };
  Tensor Pack(const Tensor& weight, const TapLayout& layout) const {
    const int64_t channels = weight.dim(1), height = weight.dim(2), width = weight.dim(3);
    const int64_t groups = shape_.params().groups();
    const int64_t depth = DepthOf(height * layout.columns * layout.channels);
    Tensor packed =
        Tensor::Zeros(DType::kI8, {CheckedMultiply(CheckedMultiply(groups, padded_out_), depth)});
    const int8_t* from = weight.data<int8_t>();
    for (int64_t f = 0; f < weight.dim(0); ++f) {
      const int64_t place =
          f / group_out_ * padded_out_ + cuda::PlaceOfFilter(static_cast<int>(f % group_out_));
      int8_t* filter = packed.data<int8_t>() + place * depth;
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t tap = 0; tap < height * width; ++tap, ++from) {
          const int64_t at = tap / width * layout.columns + tap % width + layout.lead;
          filter[at * layout.channels + c] = *from;
        }
      }
    }
    return cuda::ToDevice(packed, device_);
  }
  static int64_t DepthOf(int64_t items) { return CeilDivide(items, 16) * 16; }

  Tensor PackDepthwise(const Tensor& weight) const {
    const int64_t channels = weight.dim(0), taps = weight.dim(2) * weight.dim(3);
    const int64_t padded = CeilDivide(channels, 4) * 4;
    Tensor packed = Tensor::Zeros(DType::kI8, {CeilDivide(taps, 4) * padded * 4});
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        packed.data<int8_t>()[(tap / 4 * padded + c) * 4 + tap % 4] =
            weight.data<int8_t>()[c * taps + tap];
      }
    }
    return cuda::ToDevice(packed, device_);
  }

  /// Images of up to 4 channels that are walked two pixels at a time, so that copies are larger.
  void PackPairs(const Tensor& weight) {
    constexpr int64_t kMost = 15, kProbe = 64;
    if (!packed_.defined() || IsPlanar() || tap_channels_ != 4 || shape_.params().groups() != 1 ||
        weight.dim(2) > kMost || weight.dim(3) > kMost) {
      return;
    }
    const Shape probe = {1, weight.dim(1), kProbe, kProbe};
    const ConvAxis along = shape_.params().Geometry(probe, weight.shape()).axes[2];
    if (along.stride != 2 || along.dilation != 1 || along.pad > kMost) return;
    pairs_ = cuda::PixelPairs::Of(ByteInt(along.kernel), ByteInt(along.pad));
    paired_ = Pack(weight, {pairs_->lead, int64_t{2} * pairs_->kernel, tap_channels_});
  }

  /// Sums of all weights above and to the left of each tap, for each filter.
  Tensor WeightSums(const Tensor& weight) const {
    const int64_t height = weight.dim(2), width = weight.dim(3), taps = height * width;
    const int64_t all = shape_.params().groups() * padded_out_;
    const int64_t cells = CheckedMultiply(height + 1, width + 1);
    Tensor sums = Tensor::Zeros(DType::kI32, {CheckedMultiply(cells, all)});
    int32_t* to = sums.data<int32_t>();
    for (int64_t f = 0; f < weight.dim(0); ++f) {
      const int8_t* filter = weight.data<int8_t>() + f * weight.dim(1) * taps;
      const int64_t place = f / group_out_ * padded_out_ + f % group_out_;
      const auto at = [&](int64_t r, int64_t s) -> int32_t& {
        return to[(r * (width + 1) + s) * all + place];
      };
      for (int64_t r = 1; r <= height; ++r) {
        for (int64_t s = 1; s <= width; ++s) {
          int32_t here = 0;
          for (int64_t c = 0; c < weight.dim(1); ++c) {
            here += filter[c * taps + (r - 1) * width + s - 1];
          }
          at(r, s) = here + at(r - 1, s) + at(r, s - 1) - at(r - 1, s - 1);
        }
      }
    }
    return cuda::ToDevice(sums, device_);
  }

  /// What each filter's sums begin with, and the numbers behind them; `groups` of filters are
  /// padded, as in padded_filters() of a call, or all in one row.
  DeviceNumbers Upload(const Tensor& weight, int64_t groups, size_t places) const {
    const auto count = static_cast<int64_t>(places);
    Tensor scale = Tensor::Zeros(DType::kF32, {count}), bias = Tensor::Zeros(DType::kF32, {count});
    Tensor starts[2] = {Tensor::Zeros(DType::kI32, {count}), Tensor::Zeros(DType::kI32, {count})};
    const int64_t terms = weight.dim(1) * weight.dim(2) * weight.dim(3);
    const int64_t each = weight.dim(0) / groups, padded = count / groups;
    for (int64_t f = 0; f < weight.dim(0); ++f) {
      const int64_t at = f / each * padded + f % each;
      int64_t sum = 0;
      for (int64_t k = 0; k < terms; ++k) sum += weight.data<int8_t>()[f * terms + k];
      scale.data<float>()[at] = numbers_.scale[static_cast<size_t>(f)];
      bias.data<float>()[at] = numbers_.bias[static_cast<size_t>(f)];
      for (int is_signed = 0; is_signed < 2; ++is_signed) {
        // Bytes of i8 are multiplied as u8, 128 more.
        const int64_t zero_point =
            shape_.numbers().input.zero_point + (is_signed == 1 ? int64_t{128} : 0);
        starts[is_signed].data<int32_t>()[at] =
            static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(-zero_point * sum)));
      }
    }
    DeviceNumbers numbers{cuda::ToDevice(scale, device_), cuda::ToDevice(bias, device_), {}};
    for (int i = 0; i < 2; ++i) numbers.starts[i] = cuda::ToDevice(starts[i], device_);
    return numbers;
  }

  void SetNumbers(cuda::ByteConvCall& call, const DeviceNumbers& numbers) const {
    call.epilogue.scale = numbers.scale.data<float>();
    call.epilogue.bias = numbers.bias.data<float>();
    call.epilogue.starts = numbers.starts[call.in_signed ? 1 : 0].data<int32_t>();
  }

  /// As tiles take it, where they may: from the workspace if pixels are copied there, in pairs of
  /// pixels if these are even.
  ByteProblem ProblemOf(const Args& args, const Tensor& output, const void* workspace) const {
    cuda::ByteConvCall call = CallOf(args, output);
    if (IsPlanar() || !packed_.defined()) return {call, device_.index, is_depthwise_};
    SetNumbers(call, padded_);
    if (IsStaged()) {
      call.in = workspace;
      call.channels = ByteInt(tap_channels_);
      call.in_pixel = tap_channels_;
    }
    if (paired_.defined() && call.width.in % 2 == 0) {
      call.weight = paired_.raw();
      call.channels *= 2;
      call.in_pixel *= 2;
      call.width.in /= 2;
      call.width.stride = 1;
      call.width.kernel = pairs_->kernel;
      call.width.pad = pairs_->pad;
      call.depth = DepthOf(call.taps() * call.channels);
    }
    return {call, device_.index, is_depthwise_};
  }

  cuda::ByteConvCall CallOf(const Args& args, const Tensor& output) const {
    const ConvGeometry g = shape_.Geometry(args);
    const Tensor& input = args.tensor(shape_.input());
    const IntegerScales& numbers = shape_.numbers();
    cuda::ByteConvCall call;
    call.in = input.raw();
    call.in_signed = input.dtype() == DType::kI8;
    call.zero_point = numbers.input.zero_point;
    call.weight = packed_.defined() ? packed_.raw() : nullptr;
    call.depth = DepthOf(g.taps() * tap_channels_);
    call.tap_channels = ByteInt(tap_channels_);
    call.out = const_cast<std::byte*>(output.raw());
    call.batch = g.batch;
    call.height = ByteWalk(g.axes[1]);
    call.width = ByteWalk(g.axes[2]);
    call.groups = ByteInt(g.groups);
    call.channels = ByteInt(g.group_in());
    call.filters = ByteInt(g.group_out());
    call.in_pixel = IsPlanar() ? 1 : g.in_channels;
    call.out_pixel = IsPlanar() ? 1 : g.out_channels;
    call.in_channel = IsPlanar() ? g.in_plane() : 1;
    call.out_channel = IsPlanar() ? g.out_plane() : 1;
    call.in_image = g.in_plane() * g.in_channels;
    call.out_image = g.out_plane() * g.out_channels;
    cuda::ByteEpilogue& epilogue = call.epilogue;
    if (args.Has(shape_.addend())) {
      epilogue.addend = args.tensor(shape_.addend()).raw();
      epilogue.addend_signed = args.tensor(shape_.addend()).dtype() == DType::kI8;
      epilogue.addend_scale = numbers_.addend_scale;
    }
    epilogue.low = numbers_.low;
    epilogue.high = numbers_.high;
    epilogue.zero_point = numbers.output.zero_point;
    epilogue.bytes = numbers.result != DType::kF32;
    epilogue.least = numbers.result == DType::kI8 ? -128 : 0;
    epilogue.activated = !numbers_.direct;
    epilogue.activation = numbers.activation.kind;
    epilogue.a = numbers.activation.a;
    epilogue.b = numbers.activation.b;
    epilogue.inverse = 1.0f / numbers.output.scale;
    const bool pads = g.axes[1].pad + g.axes[1].pad_after + g.axes[2].pad + g.axes[2].pad_after > 0;
    if (pads && sums_.defined()) {
      call.padding = {call.zero_point, sums_.data<int32_t>(), ByteInt(g.groups * padded_out_),
                      call.height, call.width};
    }
    return call;
  }

  IntegerConvShape shape_;
  Device device_;
  std::string wanted_;  // algorithm, or empty
  bool is_depthwise_ = false;
  int64_t group_out_ = 0, padded_out_ = 0, tap_channels_ = 0;
  IntegerNumbers numbers_;  // without arrays
  std::optional<cuda::PixelPairs> pairs_;
  DeviceNumbers each_, padded_;  // filters in one row, and groups of them padded
  Tensor packed_, paired_, depthwise_, sums_;
};

LayerCreator CreateCudaIntegerConv(IntegerLayout layout) {
  return
      [layout](const LayerInit& init) { return std::make_unique<CudaIntegerConv>(init, layout); };
}

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(integer_conv) {
  using namespace oort;
  constexpr DeviceType kCuda = DeviceType::kCuda;
  registry.AddDevice({"oort.IntegerConv2d"}, kCuda, CreateCudaIntegerConv(IntegerLayout::kNchw));
  registry.AddDevice({"nhwc.IntegerConv2d"}, kCuda, CreateCudaIntegerConv(IntegerLayout::kNhwc));
  registry.AddDevice({"oort.IntegerLinear"}, kCuda, CreateCudaIntegerConv(IntegerLayout::kRows));
}
