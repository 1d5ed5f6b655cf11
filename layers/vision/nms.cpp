// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "oort/layer.h"

namespace oort {
namespace {

/// Boxes by falling scores, NaN first; equal scores keep their order.
template <typename Real>
std::vector<int64_t> NmsOrder(std::span<const Real> scores) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const Real a = scores[static_cast<size_t>(i)], b = scores[static_cast<size_t>(j)];
    return a > b || (a != a && b == b);
  });
  return order;
}

/// The largest Real up to `threshold`: no Real lies between the two.
template <typename Real>
Real NmsLimit(double threshold) {
  const Real limit = static_cast<Real>(threshold);
  if (!(static_cast<double>(limit) > threshold)) return limit;
  return std::nextafter(limit, -std::numeric_limits<Real>::infinity());
}

/// Boxes in the order of their scores, a coordinate at a time.
template <typename Real>
class NmsBoxes {
 public:
  NmsBoxes(const Real* boxes, std::span<const int64_t> order) : gone_(order.size(), 0) {
    for (int64_t i : order) {
      const Real* box = boxes + i * 4;
      for (size_t c = 0; c < 4; ++c) corners_[c].push_back(box[c]);
      areas_.push_back((box[2] - box[0]) * (box[3] - box[1]));
    }
  }

  bool IsGone(size_t i) const { return gone_[i] != 0; }

  /// Drops boxes that share more than `limit` of what they and box i cover together. All that
  /// follow are tested, gone or not: without branches this takes a few of them at once.
  void DropLike(size_t i, Real limit) {
    const Real *x1 = corners_[0].data(), *y1 = corners_[1].data(), *x2 = corners_[2].data(),
               *y2 = corners_[3].data(), *areas = areas_.data();
    const Real left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], area = areas[i];
    Flag* gone = gone_.data();
    for (size_t j = i + 1; j < gone_.size(); ++j) {
      const Real width = std::max(Real(0), std::min(right, x2[j]) - std::max(left, x1[j]));
      const Real height = std::max(Real(0), std::min(bottom, y2[j]) - std::max(top, y1[j]));
      const Real shared = width * height;
      gone[j] |= shared / (area + areas[j] - shared) > limit ? Flag{1} : Flag{0};
    }
  }

 private:
  using Flag = std::conditional_t<sizeof(Real) == 8, int64_t, int32_t>;  // as wide as a Real
  std::array<std::vector<Real>, 4> corners_;
  std::vector<Real> areas_;
  std::vector<Flag> gone_;
};

template <typename Real>
std::vector<int64_t> NmsKept(const Real* boxes, std::span<const Real> scores, double threshold) {
  const std::vector<int64_t> order = NmsOrder(scores);
  const Real limit = NmsLimit<Real>(threshold);
  NmsBoxes<Real> sorted(boxes, order);
  std::vector<int64_t> kept;
  for (size_t i = 0; i < order.size(); ++i) {
    if (sorted.IsGone(i)) continue;
    kept.push_back(order[i]);
    sorted.DropLike(i, limit);
  }
  return kept;
}

class Nms final : public Layer {
 public:
  explicit Nms(const LayerInit& init) : threshold_(init.Float("arg_2")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape &boxes = args.shape(0), &scores = args.shape(1);
    if (boxes.rank() != 2 || boxes[1] != 4 || !(scores == Shape{boxes[0]})) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected boxes of shape (N,4) and scores of shape (N), got " + boxes.ToString() +
                      " and " + scores.ToString());
    }
    if (args.tensor(0).dtype() != args.tensor(1).dtype()) {
      throw Error(ErrorCode::kInvalidArgument, "expected boxes and scores of one dtype, got " +
                                                   std::string(Name(args.tensor(0).dtype())) +
                                                   " and " +
                                                   std::string(Name(args.tensor(1).dtype())));
    }
    return {Value::Deferred()};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    outputs[0] = args.tensor(0).dtype() == DType::kF64 ? Run<double>(args) : Run<float>(args);
  }

 private:
  template <typename Real>
  Tensor Run(const Args& args) const {
    const std::vector<int64_t> kept =
        NmsKept(args.tensor(0).data<Real>(), args.tensor(1).span<Real>(), threshold_);
    return Tensor::From(std::span<const int64_t>(kept), {static_cast<int64_t>(kept.size())});
  }

  double threshold_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(nms) {
  using namespace oort;
  registry.Add(OperatorSchema({"pnnx.custom_op.torchvision.nms"},
                              "Indices of the boxes that overlap no better one by more than arg_2")
                   .Tensor("arg_0", DType::kF32 | DType::kF64)
                   .Tensor("arg_1", DType::kF32 | DType::kF64)
                   .Float("arg_2"),
               Create<Nms>());
}
