// SPDX-License-Identifier: MIT
#include <limits>

#include "layers/vision/device_roi.h"
#include "layers/vision/roi.h"

namespace oort {
namespace {

constexpr double kMostSamples = 65536;  // of a bin along an axis, where a parameter says how many

/// Elements along an axis and what they weigh in one bin. The mean of bilinear samples on a grid
/// is a product of such sums, so that samples need not be visited in pairs.
template <typename Real>
struct RoiTap {
  int64_t index;
  Real weight;
};

/// One axis of a box: its bins and their samples.
template <typename Real>
class RoiAxis {
 public:
  /// From `start` to `end` in elements; `samples` of a bin, or none or less for about one an
  /// element.
  RoiAxis(Real start, Real end, bool at_least_one, int64_t bins, int64_t samples, int64_t extent)
      : start_(start), extent_(extent), adaptive_(samples <= 0) {
    Real length = end - start;
    if (at_least_one) length = std::max(length, Real(1));
    bin_ = length / static_cast<Real>(bins);
    samples_ = adaptive_ ? std::ceil(bin_) : static_cast<Real>(samples);
    starts_.reserve(static_cast<size_t>(bins) + 1);
    for (int64_t i = 0; i < bins; ++i) {
      starts_.push_back(taps_.size());
      Find(start_ + static_cast<Real>(i) * bin_);
    }
    starts_.push_back(taps_.size());
  }

  Real samples() const { return samples_; }
  int64_t bins() const { return static_cast<int64_t>(starts_.size()) - 1; }
  std::span<const RoiTap<Real>> taps() const { return taps_; }
  std::span<const RoiTap<Real>> taps(int64_t bin) const {
    const size_t i = static_cast<size_t>(bin);
    return std::span(taps_).subspan(starts_[i], starts_[i + 1] - starts_[i]);
  }

 private:
  /// The taps of a bin that begins at `first`.
  void Find(Real first) {
    if (!std::isfinite(first) || !std::isfinite(bin_)) {
      taps_.push_back({0, std::numeric_limits<Real>::quiet_NaN()});
      return;
    }
    double from = 0, to = static_cast<double>(samples_);
    if (adaptive_ && samples_ > 0) {
      // A huge box has huge numbers of samples, but only a few of them lie in the image.
      const double step = static_cast<double>(bin_) / static_cast<double>(samples_);
      const double base = static_cast<double>(first);
      from = std::max(from, std::floor((-1 - base) / step) - 2);
      to = std::min(to, std::ceil((static_cast<double>(extent_) - base) / step) + 2);
      if (!(from < 0x1p50)) return;
    }
    for (double i = from; i < to; ++i) {
      Add(first + static_cast<Real>(i + 0.5) * bin_ / samples_);
    }
  }

  /// A sample between two elements; nothing where it is more than one element away from the image.
  void Add(Real at) {
    if (!(at >= -1 && at <= static_cast<Real>(extent_))) return;
    at = std::max(at, Real(0));
    const int64_t low = static_cast<int64_t>(at);
    if (low >= extent_ - 1) return Append(extent_ - 1, Real(1));
    const Real part = at - static_cast<Real>(low);
    Append(low, 1 - part);
    Append(low + 1, part);
  }

  /// Neighbouring samples share their elements.
  void Append(int64_t index, Real weight) {
    for (size_t i = taps_.size(); i > starts_.back() && i + 2 > taps_.size(); --i) {
      if (taps_[i - 1].index != index) continue;
      taps_[i - 1].weight += weight;
      return;
    }
    taps_.push_back({index, weight});
  }

  Real start_, bin_, samples_;
  int64_t extent_;
  bool adaptive_;
  std::vector<RoiTap<Real>> taps_;  // of all bins
  std::vector<size_t> starts_;      // where each bin's begin, and the end of the last
};

/// A box with everything that does not depend on the channel.
template <typename Real>
struct RoiBins {
  int64_t image;
  RoiAxis<Real> rows, columns;
  Real count;  ///< samples of a bin

  Real Mean(const Real* plane, int64_t row_length, int64_t h, int64_t w) const {
    Real sum = 0;
    for (const RoiTap<Real>& y : rows.taps(h)) {
      const Real* row = plane + y.index * row_length;
      Real along = 0;
      for (const RoiTap<Real>& x : columns.taps(w)) along += row[x.index] * x.weight;
      sum += along * y.weight;
    }
    return sum / count;
  }

  /// The means of all bins of a row. Its taps are read row of the image by row, all columns of
  /// the bins in one go; `sums` has room for them.
  void Means(const Real* plane, int64_t row_length, int64_t h, Real* sums, Real* out) const {
    const std::span<const RoiTap<Real>> all = columns.taps();
    std::fill_n(sums, all.size(), Real(0));
    for (const RoiTap<Real>& y : rows.taps(h)) {
      const Real* row = plane + y.index * row_length;
      for (size_t i = 0; i < all.size(); ++i) sums[i] += row[all[i].index] * y.weight;
    }
    for (int64_t w = 0; w < columns.bins(); ++w) {
      Real sum = 0;
      for (const RoiTap<Real>& x : columns.taps(w)) sum += *sums++ * x.weight;
      out[w] = sum / count;
    }
  }
};

class RoiAlign final : public Layer {
 public:
  RoiAlign(const RoiSpec& spec, int64_t samples, bool aligned)
      : spec_(spec), samples_(samples), aligned_(aligned) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Shape output = spec_.Output(args);
    std::vector<Value> metas{Tensor::Meta(args.tensor(0).dtype(), output)};
    if (spec_.position_sensitive) metas.emplace_back(Tensor::Meta(DType::kI32, output));
    return metas;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    if (context.stream() != nullptr) {
      const DeviceRoi call = {spec_.scale, samples_, aligned_, spec_.position_sensitive};
      RoiAlignOnDevice(*context.stream(), call, args.tensor(0), args.tensor(1), output);
      if (spec_.position_sensitive) {
        RoiChannelsOnDevice(*context.stream(), outputs[1].AsTensor());
      }
      return;
    }
    if (output.dtype() == DType::kF64) {
      Run<double>(context, args, output);
    } else {
      Run<float>(context, args, output);
    }
    if (spec_.position_sensitive) WriteChannels(outputs[1].AsTensor());
  }

 private:
  template <typename Real>
  RoiBins<Real> Bins(const Real* box, const Shape& input) const {
    const Real scale = static_cast<Real>(spec_.scale);
    const Real shift = aligned_ ? Real(0.5) : Real(0);
    const auto corner = [&](int i) { return box[i] * scale - shift; };
    const RoiAxis<Real> rows(corner(2), corner(4), !aligned_, spec_.height, samples_, input[2]);
    const RoiAxis<Real> columns(corner(1), corner(3), !aligned_, spec_.width, samples_, input[3]);
    Real count = rows.samples() * columns.samples();
    if (!spec_.position_sensitive) count = std::max(count, Real(1));
    return {RoiImage(box, input[0]), rows, columns, count};
  }

  template <typename Real>
  void Run(const Context& context, const Args& args, Tensor& output) const {
    const Shape &input = args.shape(0), &shape = output.shape();
    const Real* image = args.tensor(0).data<Real>();
    const Real* boxes = args.tensor(1).data<Real>();
    const int64_t channels = shape[1], bins = shape[2] * shape[3], plane = input[2] * input[3];
    if (plane == 0) {  // every sample lies outside
      std::fill_n(output.data<Real>(), output.elements(), Real(0));
      return;
    }
    // Neighbouring channels share the work of finding taps.
    context.ParallelFor(shape[0] * channels, 512 / bins + 1, [&](int64_t begin, int64_t end) {
      Real* out = output.data<Real>() + begin * bins;
      std::vector<Real> sums;
      for (int64_t i = begin; i < end;) {
        const RoiBins<Real> box = Bins(boxes + i / channels * 5, input);
        const Real* planes = image + box.image * input[1] * plane;
        const int64_t last = std::min(end, (i / channels + 1) * channels);
        if (!spec_.position_sensitive) sums.resize(box.columns.taps().size());
        for (; i < last; ++i) {
          const Real* channel =
              planes + i % channels * plane * (spec_.position_sensitive ? bins : 1);
          for (int64_t h = 0; h < shape[2]; ++h, out += shape[3]) {
            if (!spec_.position_sensitive) {
              box.Means(channel, input[3], h, sums.data(), out);
              continue;
            }
            for (int64_t w = 0; w < shape[3]; ++w, channel += plane) {
              out[w] = box.Mean(channel, input[3], h, w);
            }
          }
        }
      }
    });
  }

  /// Which channel each output was taken from.
  static void WriteChannels(Tensor& channels) {
    const int64_t count = channels.shape().Product(1, 4);
    int32_t* out = channels.data<int32_t>();
    for (int64_t i = 0; i < channels.elements(); ++i) out[i] = static_cast<int32_t>(i % count);
  }

  RoiSpec spec_;
  int64_t samples_;
  bool aligned_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(roi_align) {
  using namespace oort;
  const char* doc = "The mean of bilinear samples in each bin of each box";
  registry.Add(OperatorSchema({"torchvision.ops.RoIAlign"}, doc)
                   .Tensor("input", kRoiDTypes)
                   .Tensor("boxes", kRoiDTypes)
                   .Ints("output_size", 2)
                   .AtLeast(1)
                   .Float("spatial_scale", 1.0)
                   .Int("sampling_ratio", -1)
                   .AtMost(kMostSamples)
                   .Bool("aligned", false),
               [](const LayerInit& init) {
                 const std::vector<int64_t> bins = init.Ints("output_size");
                 const RoiSpec spec(init, "spatial_scale", bins[0], bins[1], false);
                 return std::make_unique<RoiAlign>(spec, init.Int("sampling_ratio"),
                                                   init.Bool("aligned"));
               });
  registry.Add(RoiCustomSchema("roi_align", doc).Int("arg_5").AtMost(kMostSamples).Bool("arg_6"),
               [](const LayerInit& init) {
                 return std::make_unique<RoiAlign>(RoiCustomSpec(init, false), init.Int("arg_5"),
                                                   init.Bool("arg_6"));
               });
  registry.Add(RoiCustomSchema("ps_roi_align", "RoIAlign in which each bin has its own channels")
                   .Int("arg_5")
                   .AtMost(kMostSamples)
                   .Outputs(2),
               [](const LayerInit& init) {
                 return std::make_unique<RoiAlign>(RoiCustomSpec(init, true), init.Int("arg_5"),
                                                   true);
               });
}
