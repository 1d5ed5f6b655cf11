// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/checked.h"
#include "core/parallel.h"
#include "layers/state_space/state_batch.h"
#include "layers/state_space/state_space_kernels.h"

namespace oort {
namespace {

class ShortConvolution final : public Layer {
 public:
  explicit ShortConvolution(const LayerInit& init)
      : kernels_(StateSpaceKernelsFor(init.isa())),
        input_(init.Arg("input")),
        layer_(init.Int("layer")) {
    const Tensor weight = init.Weight("weight"), bias = init.Weight("bias");
    if (weight.rank() != 2 || weight.dim(0) < 1 || weight.dim(1) < 2) {
      throw Error(
          ErrorCode::kInvalidModel,
          "expected a weight (channels, taps) of two taps at least, got " + weight.ToString());
    }
    channels_ = weight.dim(0);
    taps_ = weight.dim(1);
    if (bias.defined()) RequireWeight(bias, {channels_}, "biases");
    // Channels lie side by side, as those of the input do.
    weight_.resize(static_cast<size_t>(weight.elements()));
    for (int64_t channel = 0; channel < channels_; ++channel) {
      for (int64_t tap = 0; tap < taps_; ++tap) {
        weight_[static_cast<size_t>(tap * channels_ + channel)] =
            weight.data<float>()[channel * taps_ + tap];
      }
    }
    bias_.assign(static_cast<size_t>(channels_), 0.0f);
    if (bias.defined()) std::ranges::copy(bias.span<float>(), bias_.begin());
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    if (input.rank() != 2 || input[1] != channels_) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected (tokens, " + std::to_string(channels_) + "), got " + input.ToString());
    }
    return {Tensor::Meta(DType::kF32, input)};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * static_cast<double>(args.shape(input_).elements() * taps_);
    return cost;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const float* const x = input.data<float>();
    float* const y = outputs[0].AsTensor().data<float>();
    const int64_t past = taps_ - 1;
    const auto slices = StatesOf(context, input.dim(0), {layer_, past * channels_});
    const double channels = static_cast<double>(channels_), taps = static_cast<double>(taps_);
    const int64_t grain = GrainOf({channels * 8, channels * (taps + 10)});
    for (const SequenceSlice& slice : slices) {
      float* const before = slice.state->Inputs(layer_);
      if (slice.position == 0) std::fill_n(before, past * channels_, 0.0f);
      const float* const rows = x + slice.first * channels_;
      context.ParallelFor(slice.count, grain, [&](int64_t begin, int64_t end) {
        ConvolvedToken token;
        token.taps = taps_;
        token.channels = channels_;
        token.weight = weight_.data();
        token.bias = bias_.data();
        for (int64_t at = begin; at < end; ++at) {
          token.taps_before = std::max<int64_t>(past - at, 0);
          token.before = before + std::min(at, past) * channels_;
          token.rows = rows + std::max<int64_t>(at - past, 0) * channels_;
          token.y = y + (slice.first + at) * channels_;
          kernels_.convolve(token);
        }
      });
      Remember(before, rows, slice.count);
    }
  }

 private:
  /// The last inputs of those before and of `count` new rows.
  void Remember(float* before, const float* rows, int64_t count) const {
    const int64_t past = taps_ - 1, kept = std::max<int64_t>(past - count, 0);
    const auto bytes = [&](int64_t of) {
      return static_cast<size_t>(of * channels_) * sizeof(float);
    };
    std::memmove(before, before + (past - kept) * channels_, bytes(kept));
    std::memcpy(before + kept * channels_, rows + (count - (past - kept)) * channels_,
                bytes(past - kept));
  }

  const StateSpaceKernels& kernels_;
  int input_;
  int64_t layer_, channels_ = 0, taps_ = 0;
  std::vector<float> weight_, bias_;  // (taps, channels), (channels)
};

}  // namespace
}  // namespace oort

OORT_LAYERS(short_convolution) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"oort.ShortConvolution"},
                     "silu(bias + a convolution along the tokens): of each channel of input "
                     "(tokens, channels) the last taps inputs of its sequence, those of earlier "
                     "runs included, with weight (channels, taps). Sequences and their states "
                     "come with the run")
          .Tensor("input", kF32Only)
          .Int("layer")
          .AtLeast(0)
          .Attribute("weight", kF32Only)
          .OptionalAttribute("bias", kF32Only)
          .Random(),
      Create<ShortConvolution>());
}
