// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/checked.h"
#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "layers/norm/norm_common.h"
#include "layers/precision_param.h"
#include "layers/quantized_linear/byte_rows.h"
#include "layers/quantized_linear/quantized_linear_spec.h"
#include "oort/kv_cache.h"

namespace oort {
namespace {

/// Up to three products of one input with weights of 32 to 4 bits.
class QuantizedLinear final : public Layer {
 public:
  explicit QuantizedLinear(const LayerInit& init)
      : spec_(init), norm_tables_(init.isa()), multiplier_(init.isa(), ReadPrecision(init)) {
    if (ReadPrecision(init) != Precision::kF32) spec_.AllowRough();
    for (const StoredMatrix& stored : spec_.stored()) {
      matrices_.push_back(
          QuantizedMatrix::Shared(stored, AvailableThreads(), multiplier_.scales()));
      weight_bytes_ += matrices_.back()->bytes();
    }
    spec_.LetGo();
    for (const Tensor& bias : spec_.biases()) {
      bias_data_.push_back(bias.defined() ? bias.data<float>() : nullptr);
    }
  }

  std::span<const std::byte> WeightBytes() const override { return matrices_[0]->data(); }

  std::vector<Value> Infer(const Args& args) const override { return spec_.Infer(args); }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    QuantizedProduct product = ProductOf(args);
    product.x = args.tensor(spec_.input()).data<float>();
    std::byte* workspace = context.workspace();
    if (spec_.norm().defined()) {
      float* normed = reinterpret_cast<float*>(workspace);
      Normalize(context, product.x, product.rows, normed);
      product.x = normed;
      workspace += NormedBytes(args);
    }
    product.addend = spec_.epilogue().addend(args);
    product.apart = AreAnswers(context, product);
    product.next = context.next_weights();
    std::array<float*, kMostParts> y{};
    const size_t results = static_cast<size_t>(spec_.results());
    for (size_t i = 0; i < results; ++i) y[i] = outputs[i].AsTensor().data<float>();
    product.y = {y.data(), results};
    multiplier_.Run(product, context.threads(), workspace);
  }

  size_t Workspace(const Args& args, int threads) const override {
    return CheckedAdd(NormedBytes(args), multiplier_.Workspace(ProductOf(args), threads));
  }

  bool Packs(int argument) const override { return spec_.Packs(argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return spec_.Work(args, outputs, weight_bytes_);
  }

 private:
  /// Whether each row is a sequence of its own. Such rows do not depend on each other, so a step of
  /// answers may have any number of them (LayerTraits::batch_invariant_rows); unless they may, and
  /// the kernels of prompts are faster for so many of them.
  bool AreAnswers(const Context& context, const QuantizedProduct& product) const {
    const SequenceBatch* batch = SequenceBatch::Of(context);
    return batch != nullptr &&
           (batch->rows_alone() || product.rows <= multiplier_.MostAnswers(product)) &&
           std::ranges::all_of(batch->slices(), [](const auto& slice) { return slice.count <= 1; });
  }

  QuantizedProduct ProductOf(const Args& args) const {
    QuantizedProduct product;
    product.rows = spec_.Rows(args);
    product.x_stride = spec_.columns();
    product.matrices = matrices_;
    product.biases = bias_data_;
    product.gated = spec_.gated();
    product.activation = spec_.epilogue().activation();
    return product;
  }

  /// Of the rows of x behind the norm, in whole lines of the cache.
  size_t NormedBytes(const Args& args) const {
    if (!spec_.norm().defined()) return 0;
    const size_t bytes =
        CheckedMultiply<size_t>(static_cast<size_t>(spec_.Rows(args)),
                                static_cast<size_t>(spec_.columns()) * sizeof(float));
    return CheckedAdd<size_t>(bytes, 63) / 64 * 64;
  }
  void Normalize(const Context& context, const float* x, int64_t rows, float* y) const {
    const int64_t columns = spec_.columns();
    const int64_t grain = GrainOf({static_cast<double>(columns) * 16, 0});
    context.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* from = x + row * columns;
        const double squares = norm_tables_.reduce.sum_squares(from, columns);
        const double scale =
            1 / std::sqrt(squares / static_cast<double>(columns) + spec_.norm_epsilon());
        norm_tables_.norm.apply_weighted(from, y + row * columns, columns,
                                         {0, static_cast<float>(scale), 0},
                                         spec_.norm().data<float>(), nullptr);
      }
    });
  }

  QuantizedLinearSpec spec_;
  NormTables norm_tables_;
  QuantizedMultiplier multiplier_;
  std::vector<std::shared_ptr<const QuantizedMatrix>> matrices_;
  size_t weight_bytes_ = 0;
  std::vector<const float*> bias_data_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(quantized_linear) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.QuantizedLinear"},
      "x W^T + bias for up to three weights that stay in 32 to 4 bits; gated: "
      "activation(x W0^T + bias0) * (x W1^T + bias1). With norm, x is first "
      "divided by its root mean square and multiplied with it. precision=bf16 rounds x to "
      "bytes in groups, or, where it has many rows and the processor has such units, both sides to "
      "16 bits; where kernels wait for memory, scales and minimums of 4 bits become bytes, too. "
      "activations=int8 and fp8 are for GPUs: weights of more than 4 bits have 8 there, and so has "
      "x where it has many rows");
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
  schema.String(kActivationsParam, "floats").OneOf({"floats", "int8", "fp8"});
  registry.Add(schema, Create<QuantizedLinear>());
}
