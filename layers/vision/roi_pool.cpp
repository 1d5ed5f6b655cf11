// SPDX-License-Identifier: MIT
#include <limits>

#include "layers/vision/roi.h"

namespace oort {
namespace {

/// Elements [begin, end) of an axis.
struct RoiRange {
  int64_t begin, end;
};

/// Rounds to an int as torch does, in range for any number: NaN becomes 0.
template <typename Real>
int64_t RoiRound(Real value) {
  constexpr Real kMost = Real(2147483520);  // the largest i32 that is an f32 as well
  if (value != value) return 0;
  return static_cast<int64_t>(std::round(std::clamp(value, -kMost, kMost)));
}

/// A box along one axis, in whole elements.
struct RoiExtent {
  int64_t start, length;

  /// Bin `i` of `bins`; clipped to [0, limit].
  template <typename Real>
  RoiRange Bin(int64_t i, int64_t bins, int64_t limit) const {
    const Real size = static_cast<Real>(length) / static_cast<Real>(bins);
    const auto clip = [&](Real at) {
      return std::clamp<int64_t>(static_cast<int64_t>(at) + start, 0, limit);
    };
    return {clip(std::floor(static_cast<Real>(i) * size)),
            clip(std::ceil(static_cast<Real>(i + 1) * size))};
  }
};

/// The largest element of each bin with its place in the plane, or where bins have channels of
/// their own the mean of each bin with the number of its channel.
class RoiPool final : public Layer {
 public:
  explicit RoiPool(const RoiSpec& spec) : spec_(spec) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape output = spec_.Output(args);
    return {Tensor::Meta(args.tensor(0).dtype(), output), Tensor::Meta(DType::kI32, output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (outputs[0].AsTensor().elements() == 0) return;
    if (args.tensor(0).dtype() == DType::kF64) {
      Run<double>(context, args, outputs[0].AsTensor(), outputs[1].AsTensor());
    } else {
      Run<float>(context, args, outputs[0].AsTensor(), outputs[1].AsTensor());
    }
  }

 private:
  template <typename Real>
  RoiExtent Extent(Real from, Real to) const {
    const Real scale = static_cast<Real>(spec_.scale);
    const int64_t start = RoiRound(from * scale), end = RoiRound(to * scale);
    // The largest element counts both ends.
    return {start, std::max<int64_t>(end - start + (spec_.position_sensitive ? 0 : 1), 1)};
  }

  template <typename Real>
  void Run(const Context& context, const Args& args, Tensor& output, Tensor& marks) const {
    const Shape &input = args.shape(0), &shape = output.shape();
    const Real* image = args.tensor(0).data<Real>();
    const Real* boxes = args.tensor(1).data<Real>();
    const int64_t channels = shape[1], bins = shape[2] * shape[3], plane = input[2] * input[3];
    // torch clips the means one element short of the image.
    const int64_t short_by = spec_.position_sensitive && plane > 0 ? 1 : 0;
    context.ParallelFor(shape[0] * channels, 512 / bins + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Real* box = boxes + i / channels * 5;
        const RoiExtent rows = Extent(box[2], box[4]), columns = Extent(box[1], box[3]);
        const Real* planes = image + RoiImage(box, input[0]) * input[1] * plane;
        for (int64_t bin = 0; bin < bins; ++bin) {
          const int64_t c = i % channels, at = i * bins + bin;
          const int64_t from = spec_.position_sensitive ? c * bins + bin : c;
          const RoiRange h = rows.Bin<Real>(bin / shape[3], shape[2], input[2] - short_by);
          const RoiRange w = columns.Bin<Real>(bin % shape[3], shape[3], input[3] - short_by);
          Real& value = output.data<Real>()[at];
          int32_t& mark = marks.data<int32_t>()[at];
          if (spec_.position_sensitive) {
            value = MeanOf(planes + from * plane, input[3], h, w);
            mark = static_cast<int32_t>(from);
          } else {
            value = LargestOf(planes + from * plane, input[3], h, w, mark);
          }
        }
      }
    });
  }

  template <typename Real>
  static Real LargestOf(const Real* plane, int64_t row_length, RoiRange h, RoiRange w,
                        int32_t& where) {
    where = -1;
    if (h.begin >= h.end || w.begin >= w.end) return 0;
    Real best = -std::numeric_limits<Real>::max();
    for (int64_t y = h.begin; y < h.end; ++y) {
      for (int64_t x = w.begin; x < w.end; ++x) {
        const int64_t at = y * row_length + x;
        if (!(plane[at] > best)) continue;
        best = plane[at];
        where = static_cast<int32_t>(at);
      }
    }
    return best;
  }

  template <typename Real>
  static Real MeanOf(const Real* plane, int64_t row_length, RoiRange h, RoiRange w) {
    if (h.begin >= h.end || w.begin >= w.end) return 0;
    Real sum = 0;
    for (int64_t y = h.begin; y < h.end; ++y) {
      for (int64_t x = w.begin; x < w.end; ++x) sum += plane[y * row_length + x];
    }
    return sum / static_cast<Real>((h.end - h.begin) * (w.end - w.begin));
  }

  RoiSpec spec_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(roi_pool) {
  using namespace oort;
  registry.Add(
      RoiCustomSchema("roi_pool", "The largest element in each bin of each box").Outputs(2),
      [](const LayerInit& init) { return std::make_unique<RoiPool>(RoiCustomSpec(init, false)); });
  registry.Add(
      RoiCustomSchema("ps_roi_pool", "The mean of each bin of each box, in its own channels")
          .Outputs(2),
      [](const LayerInit& init) { return std::make_unique<RoiPool>(RoiCustomSpec(init, true)); });
}
