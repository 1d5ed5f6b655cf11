// SPDX-License-Identifier: MIT
#include <array>
#include <cmath>
#include <vector>

#include "core/checked.h"
#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "layers/language/stored_weight.h"
#include "layers/linear/epilogue.h"
#include "layers/norm/norm_common.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

/// Up to three products of one input with weights of 32 to 4 bits.
class CompactLinear final : public Layer {
 public:
  explicit CompactLinear(const LayerInit& init)
      : input_(init.Arg("input")),
        columns_(init.Int("in_features")),
        gated_(init.Bool("gated")),
        epilogue_(init),
        norm_(init.Weight("norm")),
        norm_epsilon_(init.Float("norm_epsilon")),
        norm_tables_(init.isa()),
        multiplier_(init.isa(), ReadPrecision(init)) {
    if (norm_.defined() && norm_.shape() != Shape{columns_}) {
      throw Error(ErrorCode::kInvalidModel, "expected a norm of " + std::to_string(columns_) +
                                                " elements, got " + norm_.ToString());
    }
    const std::vector<int64_t> rows = init.Ints("out_features");
    CheckParts(rows);
    for (int part = 0; part < static_cast<int>(rows.size()); ++part) {
      const int64_t out = rows[static_cast<size_t>(part)];
      matrices_.push_back(
          CompactMatrix::Shared(ReadStored(init, part, out, columns_), AvailableThreads()));
      biases_.push_back(init.Weight(PartName("bias", part)));
      if (biases_.back().defined() && biases_.back().shape() != Shape{out}) {
        throw Error(ErrorCode::kInvalidModel, "expected a bias of " + std::to_string(out) +
                                                  " elements, got " + biases_.back().ToString());
      }
      bias_data_.push_back(biases_.back().defined() ? biases_.back().data<float>() : nullptr);
    }
    packed_ = StoredArguments(init, static_cast<int>(rows.size()));
  }

  std::vector<Value> Infer(const Args& args) const override {
    Shape shape = args.shape(input_);
    if (shape.rank() == 0 || shape[shape.rank() - 1] != columns_) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input whose last axis is " +
                                                   std::to_string(columns_) + ", got " +
                                                   shape.ToString());
    }
    std::vector<Value> outputs;
    for (size_t i = 0; i < results(); ++i) {
      shape[shape.rank() - 1] = matrices_[i]->rows();
      shape.elements();
      outputs.emplace_back(Tensor::Meta(DType::kF32, shape));
    }
    epilogue_.Check(args, outputs[0].AsTensor().shape());
    return outputs;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    CompactProduct product = ProductOf(args);
    product.x = args.tensor(input_).data<float>();
    std::byte* workspace = context.workspace();
    if (norm_.defined()) {
      float* normed = reinterpret_cast<float*>(workspace);
      Normalize(context, product.x, product.rows, normed);
      product.x = normed;
      workspace += NormedBytes(args);
    }
    product.addend = epilogue_.addend(args);
    std::array<float*, kMostParts> y{};
    for (size_t i = 0; i < results(); ++i) y[i] = outputs[i].AsTensor().data<float>();
    product.y = {y.data(), results()};
    multiplier_.Run(product, context.threads(), workspace);
  }

  size_t Workspace(const Args& args, int threads) const override {
    return NormedBytes(args) + multiplier_.Workspace(ProductOf(args), threads);
  }

  bool Packs(int argument) const override { return IsAmong(packed_, argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    const double rows = static_cast<double>(Rows(args));
    Cost cost;
    cost.bytes = static_cast<double>(args.tensor(input_).bytes());
    for (const Value& output : outputs) {
      cost.bytes += static_cast<double>(output.AsTensor().bytes());
    }
    for (const auto& matrix : matrices_) {
      cost.flops += 2 * rows * static_cast<double>(matrix->rows()) * static_cast<double>(columns_);
      cost.bytes += static_cast<double>(matrix->bytes());
    }
    return cost;
  }

 private:
  void CheckParts(const std::vector<int64_t>& rows) const {
    if (rows.empty() || rows.size() > kMostParts) {
      throw Error(ErrorCode::kInvalidModel,
                  "out_features names one to three products, got " + std::to_string(rows.size()));
    }
    for (int64_t out : rows) {
      if (out < 1) {
        throw Error(ErrorCode::kInvalidModel,
                    "out_features are at least 1, got " + std::to_string(out));
      }
    }
    if (gated_ && (rows.size() != 2 || rows[0] != rows[1])) {
      throw Error(ErrorCode::kInvalidModel, "gated=True needs two products of one size");
    }
  }

  /// Of the rows of x behind the norm, in whole lines of the cache.
  size_t NormedBytes(const Args& args) const {
    if (!norm_.defined()) return 0;
    const size_t bytes = CheckedMultiply<size_t>(static_cast<size_t>(Rows(args)),
                                                 static_cast<size_t>(columns_) * sizeof(float));
    return CheckedAdd<size_t>(bytes, 63) / 64 * 64;
  }
  void Normalize(const Context& context, const float* x, int64_t rows, float* y) const {
    const int64_t grain = GrainOf({static_cast<double>(columns_) * 16, 0});
    context.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* from = x + row * columns_;
        const double squares = norm_tables_.reduce.sum_squares(from, columns_);
        const double scale =
            1 / std::sqrt(squares / static_cast<double>(columns_) + norm_epsilon_);
        norm_tables_.norm.apply_weighted(from, y + row * columns_, columns_,
                                         {0, static_cast<float>(scale), 0}, norm_.data<float>(),
                                         nullptr);
      }
    });
  }

  size_t results() const { return gated_ ? 1 : matrices_.size(); }
  int64_t Rows(const Args& args) const {
    const Shape& shape = args.shape(input_);
    return shape.Product(0, shape.rank() - 1);
  }
  CompactProduct ProductOf(const Args& args) const {
    CompactProduct product;
    product.rows = Rows(args);
    product.x_stride = columns_;
    product.matrices = matrices_;
    product.biases = bias_data_;
    product.gated = gated_;
    product.activation = epilogue_.activation();
    return product;
  }

  int input_;
  int64_t columns_;
  bool gated_;
  FusedEpilogue epilogue_;
  Tensor norm_;  // of an RMS norm of the input; undefined for none
  double norm_epsilon_;
  NormTables norm_tables_;
  CompactMultiplier multiplier_;
  std::vector<std::shared_ptr<const CompactMatrix>> matrices_;
  std::vector<Tensor> biases_;
  std::vector<const float*> bias_data_;
  std::vector<int> packed_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(compact_linear) {
  using namespace oort;
  OperatorSchema schema({"oort.CompactLinear"},
                        "x W^T + bias for up to three weights that stay in 32 to 4 bits; gated: "
                        "activation(x W0^T + bias0) * (x W1^T + bias1). With norm, x is first "
                        "divided by its root mean square and multiplied with it. precision=bf16 rounds x to "
                        "bytes in groups where it has few rows, and both sides to bf16 else");
  schema.Tensor("input", kF32Only).OptionalTensor("addend", kF32Only);
  schema.Int("in_features").AtLeast(1).Ints("out_features");
  for (int part = 0; part < kMostParts; ++part) {
    AddStoredWeight(schema, part);
    schema.OptionalAttribute(PartName("bias", part));
  }
  schema.OptionalAttribute("norm").Float("norm_epsilon", 1e-6);
  schema.Bool("gated", false).Outputs(1, kMostParts);
  AddEpilogueParams(schema);
  AddPrecisionParam(schema);
  registry.Add(schema, Create<CompactLinear>());
}
