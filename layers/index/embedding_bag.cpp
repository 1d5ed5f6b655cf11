// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/dispatch.h"
#include "layers/index/index_plan.h"

namespace oort {
namespace {

enum BagMode : int64_t { kBagSum = 0, kBagMean = 1, kBagMax = 2 };

/// What a bag gives of a column: `T` is the dtype, sums are in f64.
template <typename T>
struct BagColumn {
  double sum = 0;
  double best = 0;
  int64_t best_row = 0;
  bool any = false;
  void Take(double value, double weight, int64_t row) {
    sum += weight * value;
    // As torch does: the first is taken, then only what is larger.
    if (!any || value > best) {
      best = value;
      best_row = row;
    }
    any = true;
  }
};

/// Rows of a table, gathered bag by bag.
class EmbeddingBagLayer final : public Layer {
 public:
  explicit EmbeddingBagLayer(const LayerInit& init)
      : mode_(init.Int("mode")),
        weights_(init.Arg("per_sample_weights")),
        last_offset_(init.Bool("include_last_offset")),
        outputs_(init.outputs().size()) {
    if (mode_ < kBagSum || mode_ > kBagMax) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected mode 0, 1 or 2, got " + std::to_string(mode_));
    }
    if (const Value& padding = init.Constant("padding_idx"); !padding.IsNone()) {
      padding_ = padding.AsInt();
      has_padding_ = true;
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& table = args.tensor(0);
    if (table.rank() != 2 || args.tensor(1).rank() != 1 || args.tensor(2).rank() != 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a table of rows and vectors of indices and offsets, got " +
                      table.ToString() + ", " + args.tensor(1).ToString() + " and " +
                      args.tensor(2).ToString());
    }
    if (last_offset_ && args.tensor(2).elements() == 0) {
      throw Error(ErrorCode::kInvalidArgument, "include_last_offset needs an offset");
    }
    if (args.Has(weights_)) CheckWeights(args);
    const int64_t bags = Bags(args), indices = args.tensor(1).elements();
    const Shape result{bags, table.shape()[1]};
    result.elements();
    std::vector<Value> metas{Tensor::Meta(table.dtype(), result)};
    if (outputs_ > 1) metas.emplace_back(Tensor::Meta(DType::kI64, {indices}));
    if (outputs_ > 2) metas.emplace_back(Tensor::Meta(DType::kI64, {bags}));
    if (outputs_ > 3) {
      metas.emplace_back(Tensor::Meta(DType::kI64, mode_ == kBagMax ? result : Shape{bags}));
    }
    return metas;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& table = args.tensor(0);
    std::vector<int64_t> indices = ReadIndices(args.tensor(1));
    for (const int64_t index : indices) CheckIndex(index, table.shape()[0]);
    const std::vector<int64_t> bounds = Bounds(args, static_cast<int64_t>(indices.size()));
    VisitDType(table.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const Tensor weights =
            args.Has(weights_) ? args.tensor(weights_).To(DType::kF64) : Tensor();
        Run<T>(context, table, indices, bounds,
               weights.defined() ? weights.template data<double>() : nullptr, outputs);
      }
    });
  }

 private:
  int64_t Bags(const Args& args) const {
    return args.tensor(2).elements() - (last_offset_ ? 1 : 0);
  }

  void CheckWeights(const Args& args) const {
    const Tensor& weights = args.tensor(weights_);
    if (mode_ == kBagSum && weights.shape() == args.shape(1)) return;
    throw Error(ErrorCode::kInvalidArgument,
                "expected per_sample_weights for a sum only, one for each index, got " +
                    weights.ToString());
  }

  /// Where each bag begins, and where the last one ends.
  std::vector<int64_t> Bounds(const Args& args, int64_t indices) const {
    std::vector<int64_t> bounds = ReadIndices(args.tensor(2));
    if (!last_offset_) bounds.push_back(indices);
    if (bounds.front() != 0 || bounds.back() > indices ||
        !std::is_sorted(bounds.begin(), bounds.end())) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected offsets that begin with 0 and grow up to the number of indices, " +
                      std::to_string(indices));
    }
    return bounds;
  }

  bool IsPadding(int64_t index, int64_t rows) const {
    return has_padding_ && index == (padding_ < 0 ? padding_ + rows : padding_);
  }

  template <typename T>
  void Run(const Context& context, const Tensor& table, const std::vector<int64_t>& indices,
           const std::vector<int64_t>& bounds, const double* weights,
           std::span<Value> outputs) const {
    const int64_t width = table.shape()[1], rows = table.shape()[0];
    const int64_t bags = static_cast<int64_t>(bounds.size()) - 1;
    const auto extra = [&](size_t i) {
      return outputs_ > i ? outputs[i].AsTensor().data<int64_t>() : nullptr;
    };
    int64_t* const bag_of = extra(1);
    int64_t* const sizes = extra(2);
    int64_t* const best = extra(3);
    if (bag_of != nullptr) std::fill_n(bag_of, indices.size(), bags);
    T* output = outputs[0].AsTensor().data<T>();
    const T* source = table.data<T>();
    context.ParallelFor(bags, 1 + 4096 / (width + 1), [&](int64_t begin, int64_t end) {
      for (int64_t bag = begin; bag < end; ++bag) {
        const int64_t from = bounds[static_cast<size_t>(bag)];
        const int64_t to = bounds[static_cast<size_t>(bag) + 1];
        int64_t count = 0;
        for (int64_t i = from; i < to; ++i) {
          count += IsPadding(indices[static_cast<size_t>(i)], rows) ? 0 : 1;
          if (bag_of != nullptr) bag_of[i] = bag;
        }
        if (sizes != nullptr) sizes[bag] = count;
        if (best != nullptr && mode_ != kBagMax) best[bag] = count;
        for (int64_t column = 0; column < width; ++column) {
          BagColumn<T> state;
          for (int64_t i = from; i < to; ++i) {
            const int64_t row = indices[static_cast<size_t>(i)];
            if (IsPadding(row, rows)) continue;
            state.Take(ConvertElement<double>(source[row * width + column]),
                       weights != nullptr ? weights[i] : 1.0, row);
          }
          const double mean = state.sum / static_cast<double>(std::max<int64_t>(count, 1));
          output[bag * width + column] = ConvertElement<T>(mode_ == kBagMax    ? state.best
                                                           : mode_ == kBagMean ? mean
                                                                               : state.sum);
          if (best != nullptr && mode_ == kBagMax) best[bag * width + column] = state.best_row;
        }
      }
    });
  }

  int64_t mode_;
  int weights_;
  bool last_offset_;
  size_t outputs_;
  int64_t padding_ = -1;
  bool has_padding_ = false;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(embedding_bag) {
  using namespace oort;
  registry.Add(OperatorSchema({"aten::embedding_bag"},
                              "The sum (mode 0), mean (1) or maximum (2) of the rows that the "
                              "indices from one offset to the next name; an empty bag gives 0")
                   .Tensor("weight", kFloats)
                   .Tensor("indices", kIndexTypes)
                   .Tensor("offsets", kIndexTypes)
                   .Ignored("scale_grad_by_freq")
                   .Int("mode", 0)
                   .Ignored("sparse")
                   .OptionalTensor("per_sample_weights", kFloats)
                   .Bool("include_last_offset", false)
                   .Int("padding_idx")
                   .Nullable()
                   .Outputs(1, 4),
               Create<EmbeddingBagLayer>());
}
