// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "layers/layout/axes.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

void CheckImageRank(const Shape& input) {
  if (input.rank() >= 3) return;
  throw Error(ErrorCode::kInvalidArgument,
              "expected a rank of at least 3, got shape " + input.ToString());
}

int64_t DivideExtent(const Shape& input, int axis, int64_t factor) {
  if (input[axis] % factor == 0) return input[axis] / factor;
  throw Error(ErrorCode::kInvalidArgument, "axis " + std::to_string(axis) + " of shape " +
                                               input.ToString() + " is no multiple of " +
                                               std::to_string(factor));
}

/// Channels (g, c) become (c, g). Like torch's, it takes axis 1 for the channels at any rank.
class NhwcChannelShuffle final : public StridedLayer {
 public:
  explicit NhwcChannelShuffle(const LayerInit& init)
      : StridedLayer(init), groups_(init.Int("groups")) {}

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    const bool pairs = groups_ == 2 && input.rank() == 4 && context.stream() == nullptr;
    if (pairs && input.dtype() == DType::kF32) return ShufflePairs<float>(context, input, outputs);
    if (pairs && input.dtype() == DType::kF16) return ShufflePairs<Half>(context, input, outputs);
    StridedLayer::Forward(context, args, outputs);
  }

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    CheckImageRank(input);
    const int axis = NhwcAxis(1, input.rank());
    const int64_t inner = DivideExtent(input, axis, groups_);
    return {{Strided(input).Split(axis, groups_, inner).Swapped(axis, axis + 1), input}};
  }

 private:
  template <typename T>
  static void ShufflePairs(const Context& context, const Tensor& input, std::span<Value> outputs) {
    const T* in = input.data<T>();
    T* out = outputs[0].AsTensor().data<T>();
    const int64_t half = input.dim(3) / 2;
    const int64_t pixels = half == 0 ? 0 : input.elements() / (2 * half);
    context.ParallelFor(pixels, 16384 / (half + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const T *first = in + p * 2 * half, *second = first + half;
        T* to = out + p * 2 * half;
        for (int64_t c = 0; c < half; ++c) {
          to[2 * c] = first[c];
          to[2 * c + 1] = second[c];
        }
      }
    });
  }

  int64_t groups_;
};

/// (…, h, w, c·r·r) becomes (…, h·r, w·r, c).
class PixelsFromChannels final : public StridedLayer {
 public:
  explicit PixelsFromChannels(const LayerInit& init)
      : StridedLayer(init), factor_(init.Int("upscale_factor")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    CheckImageRank(input);
    const int h = input.rank() - 3, w = h + 1, c = h + 2;
    const int64_t square = CheckedMultiply(factor_, factor_);
    Shape shape = input;
    shape[c] = DivideExtent(input, c, square);
    shape[h] = CheckedMultiply(input[h], factor_);
    shape[w] = CheckedMultiply(input[w], factor_);
    // h, w, c, r, r to h, r, w, r, c
    const Strided split = Strided(input).Split(c, shape[c], square).Split(c + 1, factor_, factor_);
    return {{split.Swapped(w, c + 1).Swapped(c, c + 1).Swapped(c + 1, c + 2), shape}};
  }

 private:
  int64_t factor_;
};

/// (…, h·r, w·r, c) becomes (…, h, w, c·r·r).
class ChannelsFromPixels final : public StridedLayer {
 public:
  explicit ChannelsFromPixels(const LayerInit& init)
      : StridedLayer(init), factor_(init.Int("downscale_factor")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    CheckImageRank(input);
    const int h = input.rank() - 3, w = h + 1, c = h + 2;
    Shape shape = input;
    shape[h] = DivideExtent(input, h, factor_);
    shape[w] = DivideExtent(input, w, factor_);
    shape[c] = CheckedMultiply(input[c], CheckedMultiply(factor_, factor_));
    // h, r, w, r, c to h, w, c, r, r
    const Strided split = Strided(input).Split(w, shape[w], factor_).Split(h, shape[h], factor_);
    return {{split.Swapped(h + 1, h + 2).Swapped(h + 2, h + 4).Swapped(h + 3, h + 4), shape}};
  }

 private:
  int64_t factor_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(nhwc_shuffle) {
  using namespace oort;
  const auto doc = [](const char* type) {
    return std::string(type) + " of (…, H, W, C). Made by the NHWC pass";
  };
  registry.Add(OperatorSchema({"nhwc.ChannelShuffle"}, doc("nn.ChannelShuffle"))
                   .Tensor("input", kAllDTypes)
                   .Int("groups")
                   .AtLeast(1)
                   .KeepsDType()
                   .F16OnCpu(),
               Create<NhwcChannelShuffle>());
  registry.Add(OperatorSchema({"nhwc.PixelShuffle"}, doc("nn.PixelShuffle"))
                   .Tensor("input", kAllDTypes)
                   .Int("upscale_factor")
                   .AtLeast(1)
                   .KeepsDType()
                   .F16OnCpu(),
               Create<PixelsFromChannels>());
  registry.Add(OperatorSchema({"nhwc.PixelUnshuffle"}, doc("nn.PixelUnshuffle"))
                   .Tensor("input", kAllDTypes)
                   .Int("downscale_factor")
                   .AtLeast(1)
                   .KeepsDType()
                   .F16OnCpu(),
               Create<ChannelsFromPixels>());
}

OORT_CUDA_LAYERS(nhwc_shuffle) {
  registry.AddDevice({"nhwc.ChannelShuffle", "nhwc.PixelShuffle", "nhwc.PixelUnshuffle"},
                     oort::DeviceType::kCuda);
}
