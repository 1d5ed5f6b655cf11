// SPDX-License-Identifier: MIT
// one_hot, bincount and histc: which values occur, and how often.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/checked.h"
#include "core/dispatch.h"
#include "layers/index/index_plan.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// The largest index, -1 if there is none; throws for a negative one.
int64_t LargestIndex(const std::vector<int64_t>& indices) {
  int64_t largest = -1;
  for (int64_t index : indices) {
    if (index < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected values of at least 0, got " + std::to_string(index));
    }
    largest = std::max(largest, index);
  }
  return largest;
}

class OneHotLayer final : public Layer {
 public:
  explicit OneHotLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[1].IsConcrete()) return {Value::Deferred()};
    const int64_t classes = args[1].AsInt();
    if (classes < -1 || classes == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a number of classes, got " + std::to_string(classes));
    }
    if (classes < 0) return {Value::Deferred()};
    return {Tensor::Meta(DType::kI64, ResultShape(args, classes))};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    const std::vector<int64_t> indices = ReadIndices(args.tensor(0));
    const int64_t largest = LargestIndex(indices);
    const int64_t given = args[1].AsInt();
    const int64_t classes = given >= 0 ? given : CheckedAdd<int64_t>(largest, 1);
    if (classes == 0) {
      throw Error(ErrorCode::kInvalidArgument, "no class is named, so their number is unknown");
    }
    if (largest >= classes) CheckIndex(largest, classes);
    Tensor& output = OutputTensor(outputs[0], DType::kI64, ResultShape(args, classes));
    int64_t* row = output.data<int64_t>();
    std::fill_n(row, output.elements(), int64_t{0});
    for (int64_t index : indices) {
      row[index] = 1;
      row += classes;
    }
  }

 private:
  static Shape ResultShape(const Args& args, int64_t classes) {
    Shape shape = args.shape(0);
    shape.Append(classes);
    return shape;
  }
};

class BincountLayer final : public Layer {
 public:
  explicit BincountLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& x = args.shape(0);
    if (x.rank() != 1 || (args.Has(1) && !(args.shape(1) == x))) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a vector and as many weights, got shape " + x.ToString());
    }
    return {Value::Deferred()};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    const std::vector<int64_t> indices = ReadIndices(args.tensor(0));
    const int64_t least = args[2].AsInt();
    if (least < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a minlength of at least 0, got " + std::to_string(least));
    }
    const int64_t bins = std::max(least, CheckedAdd<int64_t>(LargestIndex(indices), 1));
    if (!args.Has(1)) {
      Tensor counts = Tensor::Zeros(DType::kI64, {bins});
      for (int64_t index : indices) ++counts.data<int64_t>()[index];
      outputs[0] = counts;
      return;
    }
    const bool single = args.tensor(1).dtype() == DType::kF32;
    const Tensor weights = args.tensor(1).To(DType::kF64);
    Tensor sums = Tensor::Zeros(DType::kF64, {bins});
    for (size_t i = 0; i < indices.size(); ++i) {
      sums.data<double>()[indices[i]] += weights.data<double>()[i];
    }
    outputs[0] = single ? sums.To(DType::kF32) : sums;
  }
};

/// How many elements lie in each of `bins` intervals of one width between min and max.
class HistcLayer final : public Layer {
 public:
  explicit HistcLayer(const LayerInit& init)
      : bins_(init.Int("bins")), min_(init.Float("min")), max_(init.Float("max")) {
    if (bins_ < 1 || !(min_ <= max_) || !std::isfinite(min_) || !std::isfinite(max_)) {
      throw Error(ErrorCode::kInvalidModel, "expected bins between two finite limits");
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), {bins_})};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const Tensor values = x.To(DType::kF64);
    const std::span<const double> data = values.span<double>();
    double low = min_, high = max_;
    if (low == high && !data.empty()) {
      const auto [least, most] = std::minmax_element(data.begin(), data.end());
      low = *least;
      high = *most;
    }
    if (low == high) low -= 1, high += 1;
    if (!std::isfinite(low) || !std::isfinite(high)) {
      throw Error(ErrorCode::kInvalidArgument, "the elements have no finite range");
    }
    Tensor counts = Tensor::Zeros(DType::kF64, {bins_});
    for (double value : data) {
      if (!(value >= low && value <= high)) continue;
      const double place = (value - low) / (high - low) * static_cast<double>(bins_);
      const int64_t bin = std::min(bins_ - 1, static_cast<int64_t>(place));
      counts.data<double>()[bin] += 1;
    }
    CopyElements(counts.To(x.dtype()), outputs[0].AsTensor());
  }

 private:
  int64_t bins_;
  double min_, max_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(counts) {
  using namespace oort;
  registry.Add(OperatorSchema({"F.one_hot", "aten::one_hot"},
                              "1 at the place that an index names, 0 elsewhere, along a new last "
                              "axis; num_classes=-1 takes the largest index")
                   .Tensor("input", kIndexTypes)
                   .Int("num_classes", -1)
                   .Dynamic(),
               Create<OneHotLayer>());
  registry.Add(OperatorSchema({"torch.bincount", "aten::bincount"},
                              "How often 0, 1, 2, … occur, or the sum of their weights")
                   .Tensor("input", kIntegers)
                   .OptionalTensor("weights", kReals)
                   .Int("minlength", 0)
                   .Dynamic(),
               Create<BincountLayer>());
  registry.Add(OperatorSchema({"torch.histc", "aten::histc"},
                              "How many elements lie in each of `bins` intervals from min to max; "
                              "0 and 0 stand for the least and the largest element")
                   .Tensor("input", DType::kF32 | DType::kF64)
                   .Int("bins", 100)
                   .Float("min", 0)
                   .Float("max", 0),
               Create<HistcLayer>());
}
