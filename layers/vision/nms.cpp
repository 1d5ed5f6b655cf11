// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include "oort/layer.h"

namespace oort {
namespace {

template <typename Real>
struct NmsBox {
  Real x1, y1, x2, y2, area;
};

/// Whether two boxes share more than `threshold` of what they cover together.
template <typename Real>
bool NmsOverlaps(const NmsBox<Real>& a, const NmsBox<Real>& b, double threshold) {
  const Real width = std::max(Real(0), std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const Real height = std::max(Real(0), std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
  const Real shared = width * height;
  return static_cast<double>(shared / (a.area + b.area - shared)) > threshold;
}

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

template <typename Real>
std::vector<int64_t> NmsKept(const Real* boxes, std::span<const Real> scores, double threshold) {
  const std::vector<int64_t> order = NmsOrder(scores);
  std::vector<NmsBox<Real>> sorted;
  sorted.reserve(order.size());
  for (int64_t i : order) {
    const Real* box = boxes + i * 4;
    sorted.push_back({box[0], box[1], box[2], box[3], (box[2] - box[0]) * (box[3] - box[1])});
  }
  std::vector<uint8_t> gone(order.size(), 0);
  std::vector<int64_t> kept;
  for (size_t i = 0; i < order.size(); ++i) {
    if (gone[i] != 0) continue;
    kept.push_back(order[i]);
    for (size_t j = i + 1; j < order.size(); ++j) {
      if (gone[j] == 0) gone[j] = NmsOverlaps(sorted[i], sorted[j], threshold) ? 1 : 0;
    }
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
