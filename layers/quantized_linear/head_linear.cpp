// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/checked.h"
#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "layers/precision_param.h"
#include "layers/quantized_linear/answer_rows.h"
#include "layers/quantized_linear/stored_weight.h"

namespace oort {
namespace {

/// A linear layer of its own for each head of a row, as latent attention has them.
class HeadLinear final : public Layer {
 public:
  explicit HeadLinear(const LayerInit& init)
      : input_(init.Arg("input")),
        tail_(init.Arg("tail")),
        heads_(init.Int("heads")),
        in_features_(init.Int("in_features")),
        out_features_(init.Int("out_features")),
        multiplier_(init.isa(), ReadPrecision(init)),
        packed_(StoredArguments(init, 1)) {
    const StoredMatrix all =
        ReadStored(init, 0, CheckedMultiply<int64_t>(heads_, out_features_), in_features_);
    for (int64_t head = 0; head < heads_; ++head) {
      const StoredMatrix own = StoredRows(all, head, out_features_);
      matrices_.push_back(
          {std::make_shared<const QuantizedMatrix>(own, AvailableThreads(), multiplier_.scales())});
      weight_bytes_ += matrices_.back()[0]->bytes();
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& shape = args.shape(input_);
    if (shape.rank() != 2 || shape[1] % heads_ != 0 || shape[1] / heads_ < in_features_) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an input (tokens," + std::to_string(heads_) + " heads of at least " +
                      std::to_string(in_features_) + "), got " + shape.ToString());
    }
    int64_t tail = 0;
    if (args.Has(tail_)) {
      const Shape& more = args.shape(tail_);
      if (more.rank() != 2 || more[0] != shape[0] || more[1] % heads_ != 0) {
        throw Error(ErrorCode::kInvalidArgument, "expected a tail of " + std::to_string(shape[0]) +
                                                     " tokens and " + std::to_string(heads_) +
                                                     " heads, got " + more.ToString());
      }
      tail = more[1] / heads_;
    }
    const int64_t width = CheckedMultiply<int64_t>(heads_, CheckedAdd(out_features_, tail));
    return {Tensor::Meta(DType::kF32, {shape[0], width})};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    Tensor& out = outputs[0].AsTensor();
    const int64_t rows = input.dim(0);
    if (rows == 0) return;
    float* product = context.workspace<float>();
    std::byte* rest = context.workspace() + ProductBytes(rows);
    const bool apart = AreAnswersApart(context, multiplier_);
    for (int64_t head = 0; head < heads_; ++head) {
      QuantizedProduct own = ProductOf(head, rows, input.dim(1), apart);
      const std::array<float*, 1> y = {product};
      own.x = input.data<float>() + head * (input.dim(1) / heads_);
      own.y = y;
      multiplier_.Run(own, context.threads(), rest);
      Place(context, args, head, product, out);
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    const Shape& shape = args.shape(input_);
    size_t most = 0;
    for (const bool apart : {false, true}) {
      const QuantizedProduct product = ProductOf(0, shape[0], shape[1], apart);
      most = std::max(most, multiplier_.Workspace(product, threads));
    }
    return CheckedAdd(ProductBytes(shape[0]), most);
  }

  bool Packs(int argument) const override { return IsAmong(packed_, argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost;
    cost.flops = 2 * static_cast<double>(args.shape(input_)[0]) * static_cast<double>(heads_) *
                 static_cast<double>(in_features_) * static_cast<double>(out_features_);
    cost.bytes = static_cast<double>(weight_bytes_) +
                 static_cast<double>(args.tensor(input_).bytes()) +
                 static_cast<double>(outputs[0].AsTensor().bytes());
    return cost;
  }

 private:
  QuantizedProduct ProductOf(int64_t head, int64_t rows, int64_t stride, bool apart) const {
    QuantizedProduct product;
    product.rows = rows;
    product.x_stride = stride;
    product.matrices = matrices_[static_cast<size_t>(head)];
    product.biases = no_bias_;
    product.apart = apart;
    return product;
  }

  /// The product of a head, and its tail behind that.
  void Place(const Context& context, const Args& args, int64_t head, const float* product,
             Tensor& out) const {
    const int64_t width = out.dim(1), own = width / heads_, more = own - out_features_;
    const float* tail = more > 0 ? args.tensor(tail_).data<float>() : nullptr;
    const double bytes = static_cast<double>(own) * 2 * sizeof(float);
    context.ParallelFor(out.dim(0), GrainOf({bytes, 0}), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* to = out.data<float>() + row * width + head * own;
        to = std::copy_n(product + row * out_features_, out_features_, to);
        if (tail != nullptr) std::copy_n(tail + (row * heads_ + head) * more, more, to);
      }
    });
  }

  size_t ProductBytes(int64_t rows) const {
    const size_t bytes = CheckedMultiply<size_t>(
        static_cast<size_t>(rows), static_cast<size_t>(out_features_) * sizeof(float));
    return CheckedAdd<size_t>(bytes, 63) / 64 * 64;
  }

  int input_, tail_;
  int64_t heads_, in_features_, out_features_;
  QuantizedMultiplier multiplier_;
  std::vector<int> packed_;
  std::vector<std::array<std::shared_ptr<const QuantizedMatrix>, 1>> matrices_;
  std::array<const float*, 1> no_bias_ = {};
  size_t weight_bytes_ = 0;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(head_linear) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.HeadLinear"},
      "A linear layer for each head: the input has `heads` parts in a row, of which each gives its "
      "first in_features to a weight of its own. The rows of weight are those of all heads, one "
      "behind the other. tail: parts of as many heads, which follow the products");
  schema.Tensor("input", kF32Only).OptionalTensor("tail", kF32Only);
  schema.Int("heads").AtLeast(1).Int("in_features").AtLeast(1).Int("out_features").AtLeast(1);
  AddStoredWeight(schema, 0);
  AddPrecisionParam(schema);
  registry.Add(schema, Create<HeadLinear>());
}
