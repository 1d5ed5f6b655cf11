// SPDX-License-Identifier: MIT
#include <array>
#include <numeric>

#include "core/checked.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

void CheckRank(const Shape& input, int least) {
  if (input.rank() < least) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "expected a rank of at least " + std::to_string(least) + ", got shape " + input.ToString());
  }
}

/// `extent` divided by `factor`; throws where it leaves a rest.
int64_t Quotient(const Shape& input, int axis, int64_t factor) {
  if (input[axis] % factor != 0) {
    throw Error(ErrorCode::kInvalidArgument, "axis " + std::to_string(axis) + " of shape " +
                                                 input.ToString() + " is no multiple of " +
                                                 std::to_string(factor));
  }
  return input[axis] / factor;
}

/// The identity up to `first`, then the axes `order` counted from there.
Strided PermutedFrom(const Strided& view, int first, std::initializer_list<int> order) {
  std::vector<int> axes(static_cast<size_t>(view.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  size_t at = static_cast<size_t>(first);
  for (int axis : order) axes[at++] = first + axis;
  return view.Permuted(axes);
}

/// Channels (g, c) become (c, g).
class ChannelShuffleLayer final : public StridedLayer {
 public:
  explicit ChannelShuffleLayer(const LayerInit& init)
      : StridedLayer(init), groups_(init.Int("groups")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    CheckRank(input, 3);
    const int64_t inner = Quotient(input, 1, groups_);
    return {{Strided(input).Split(1, groups_, inner).Swapped(1, 2), input}};
  }

 private:
  int64_t groups_;
};

/// (…, c·r·r, h, w) becomes (…, c, h·r, w·r).
class PixelShuffleLayer final : public StridedLayer {
 public:
  explicit PixelShuffleLayer(const LayerInit& init)
      : StridedLayer(init), factor_(init.Int("upscale_factor")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    CheckRank(input, 3);
    const int c = input.rank() - 3;
    const int64_t square = CheckedMultiply(factor_, factor_);
    Shape shape = input;
    shape[c] = Quotient(input, c, square);
    shape[c + 1] = CheckedMultiply(input[c + 1], factor_);
    shape[c + 2] = CheckedMultiply(input[c + 2], factor_);
    const Strided split = Strided(input).Split(c, shape[c], square).Split(c + 1, factor_, factor_);
    return {{PermutedFrom(split, c, {0, 3, 1, 4, 2}), shape}};
  }

 private:
  int64_t factor_;
};

/// (…, c, h·r, w·r) becomes (…, c·r·r, h, w).
class PixelUnshuffleLayer final : public StridedLayer {
 public:
  explicit PixelUnshuffleLayer(const LayerInit& init)
      : StridedLayer(init), factor_(init.Int("downscale_factor")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    CheckRank(input, 3);
    const int c = input.rank() - 3;
    Shape shape = input;
    shape[c] = CheckedMultiply(input[c], CheckedMultiply(factor_, factor_));
    shape[c + 1] = Quotient(input, c + 1, factor_);
    shape[c + 2] = Quotient(input, c + 2, factor_);
    const Strided split =
        Strided(input).Split(c + 2, shape[c + 2], factor_).Split(c + 1, shape[c + 1], factor_);
    return {{PermutedFrom(split, c, {0, 2, 4, 1, 3}), shape}};
  }

 private:
  int64_t factor_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(shuffle) {
  using namespace oort;
  registry.Add(OperatorSchema({"nn.ChannelShuffle", "F.channel_shuffle", "aten::channel_shuffle"},
                              "Deals the channels of each group out to all groups in turn")
                   .Tensor("input", kAllDTypes)
                   .Int("groups")
                   .AtLeast(1)
                   .KeepsDType()
                   .HasNhwcForm("nhwc.ChannelShuffle"),
               Create<ChannelShuffleLayer>());
  registry.Add(OperatorSchema({"nn.PixelShuffle", "F.pixel_shuffle"},
                              "Moves blocks of r*r channels into r by r pixels")
                   .Tensor("input", kAllDTypes)
                   .Int("upscale_factor")
                   .AtLeast(1)
                   .KeepsDType()
                   .HasNhwcForm("nhwc.PixelShuffle"),
               Create<PixelShuffleLayer>());
  registry.Add(OperatorSchema({"nn.PixelUnshuffle", "F.pixel_unshuffle"},
                              "Moves r by r pixels into blocks of r*r channels")
                   .Tensor("input", kAllDTypes)
                   .Int("downscale_factor")
                   .AtLeast(1)
                   .HasNhwcForm("nhwc.PixelUnshuffle"),
               Create<PixelUnshuffleLayer>());
}
