// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/checked.h"
#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "layers/experts/expert_mixture_spec.h"
#include "layers/precision_param.h"
#include "layers/quantized_linear/answer_rows.h"

namespace oort {
namespace {

/// Feed-forward layers of which each token goes through a few. Rows are grouped by expert, so that
/// only experts in use are read, and each of them once.
class ExpertMixture final : public Layer {
 public:
  explicit ExpertMixture(const LayerInit& init)
      : spec_(init), multiplier_(init.isa(), ReadPrecision(init)) {
    if (ReadPrecision(init) != Precision::kF32) spec_.epilogue().AllowRough();
    for (const ExpertPart part : {kGatePart, kUpPart, kDownPart}) Pack(init, part);
  }

  std::vector<Value> Infer(const Args& args) const override { return spec_.Infer(args); }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t tokens = spec_.Tokens(args), first = spec_.first();
    const float* x = spec_.x(args);
    Tensor& out = outputs[0].AsTensor();
    if (const float* addend = spec_.epilogue().addend(args)) {
      std::memcpy(out.raw(), addend, out.bytes());
    } else {
      std::memset(out.raw(), 0, out.bytes());
    }
    const ExpertRouting routing(spec_.rule(), spec_.logits(args), tokens);
    const Scratch scratch = ScratchOf(context.workspace(), tokens);
    const bool apart = AreAnswersApart(context, multiplier_);
    float* next = out.data<float>();  // where rows are not summed up
    for (const int64_t expert : routing.experts_in_use()) {
      if (expert < first || expert >= first + spec_.held()) continue;  // another rank has it
      const int64_t rows = routing.count(expert);
      const RoutedToken* routed = routing.begin(expert);
      const float* gathered = x + routed->token * spec_.hidden();
      if (rows > 1 || spec_.rule().scales_inputs) {
        Gather(context, x, routed, rows, scratch.x);
        gathered = scratch.x;
      }
      float* y = spec_.sums() ? scratch.y : next;
      Run(context, expert - first, gathered, rows, apart, scratch, y);
      next += rows * spec_.hidden();
      if (spec_.sums()) AddWeighted(context, y, routed, rows, spec_.hidden(), out.data<float>());
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    const int64_t tokens = spec_.Tokens(args);
    size_t most = 0;
    // An expert gets any number of them, and fewer rows may go through kernels that need more.
    for (int64_t rows = 1; rows <= tokens; ++rows) {
      for (const bool apart : {false, true}) {
        most = std::max({most, multiplier_.Workspace(UpProduct(0, rows, apart), threads),
                         multiplier_.Workspace(DownProduct(0, rows, apart), threads)});
      }
    }
    return CheckedAdd(ScratchBytes(tokens), most);
  }

  bool Packs(int argument) const override { return spec_.Packs(argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return spec_.Work(args, outputs, weight_bytes_);
  }

 private:
  using MatrixPointer = std::shared_ptr<const QuantizedMatrix>;
  struct Expert {
    std::array<MatrixPointer, 2> up;  ///< gate and up
    std::array<MatrixPointer, 1> down;
    std::array<const float*, 2> up_bias = {};
    std::array<const float*, 1> down_bias = {};
  };
  /// Of the rows of one expert.
  struct Scratch {
    float *x, *gate, *up, *y;
    std::byte* rest;
  };

  void Pack(const LayerInit& init, ExpertPart part) {
    const int64_t rows = spec_.RowsOf(part);
    const StoredMatrix all = spec_.Weights(init, part);
    biases_[part] = spec_.Bias(init, part);
    const float* bias = biases_[part].defined() ? biases_[part].data<float>() : nullptr;
    experts_.resize(static_cast<size_t>(spec_.held()));
    for (int64_t e = 0; e < spec_.held(); ++e) {
      Expert& expert = experts_[static_cast<size_t>(e)];
      const auto matrix = std::make_shared<const QuantizedMatrix>(
          StoredRows(all, e, rows), AvailableThreads(), multiplier_.scales());
      weight_bytes_ += matrix->bytes();
      const float* own = bias == nullptr ? nullptr : bias + e * rows;
      if (part == kDownPart) {
        expert.down = {matrix};
        expert.down_bias = {own};
      } else {
        expert.up[part] = matrix;
        expert.up_bias[part] = own;
      }
    }
  }

  static QuantizedProduct ProductOf(int64_t rows, int64_t width, bool apart) {
    QuantizedProduct product;
    product.rows = rows;
    product.x_stride = width;
    product.apart = apart;
    return product;
  }
  QuantizedProduct UpProduct(int64_t expert, int64_t rows, bool apart) const {
    const Expert& weights = experts_[static_cast<size_t>(expert)];
    QuantizedProduct product = ProductOf(rows, spec_.hidden(), apart);
    product.matrices = weights.up;
    product.biases = weights.up_bias;
    product.gated = spec_.limit() == 0;
    if (product.gated) product.activation = spec_.epilogue().activation();
    return product;
  }
  QuantizedProduct DownProduct(int64_t expert, int64_t rows, bool apart) const {
    const Expert& weights = experts_[static_cast<size_t>(expert)];
    QuantizedProduct product = ProductOf(rows, spec_.intermediate(), apart);
    product.matrices = weights.down;
    product.biases = weights.down_bias;
    return product;
  }

  void Run(const Context& context, int64_t expert, const float* x, int64_t rows, bool apart,
           const Scratch& scratch, float* result) const {
    QuantizedProduct up = UpProduct(expert, rows, apart);
    const std::array<float*, 2> hidden = {scratch.gate, scratch.up};
    up.x = x;
    up.y = {hidden.data(), up.gated ? 1u : 2u};
    up.next = experts_[static_cast<size_t>(expert)].down[0]->data();
    multiplier_.Run(up, context.threads(), scratch.rest);
    if (!up.gated) ClampAndGate(context, rows * spec_.intermediate(), scratch.gate, scratch.up);
    QuantizedProduct down = DownProduct(expert, rows, apart);
    const std::array<float*, 1> y = {result};
    down.x = scratch.gate;
    down.y = y;
    multiplier_.Run(down, context.threads(), scratch.rest);
  }

  /// gate * sigmoid(1.702 gate) * (up + 1) with both held to the limit, into `gate`.
  void ClampAndGate(const Context& context, int64_t count, float* gate, const float* up) const {
    constexpr float kSlope = 1.702F;
    context.ParallelFor(count, GrainOf({12, 50}), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float g = std::min(gate[i], spec_.limit());
        const float u = std::clamp(up[i], -spec_.limit(), spec_.limit());
        gate[i] = (u + 1) * (g / (1 + std::exp(-kSlope * g)));
      }
    });
  }

  void Gather(const Context& context, const float* x, const RoutedToken* routed, int64_t rows,
              float* to) const {
    const double bytes = static_cast<double>(spec_.hidden()) * 8;
    context.ParallelFor(rows, GrainOf({bytes, 0}), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* from = x + routed[row].token * spec_.hidden();
        if (!spec_.rule().scales_inputs) {
          std::copy_n(from, spec_.hidden(), to + row * spec_.hidden());
          continue;
        }
        const float scale = routed[row].scale;
        for (int64_t i = 0; i < spec_.hidden(); ++i) to[row * spec_.hidden() + i] = from[i] * scale;
      }
    });
  }

  static size_t Lines(int64_t rows, int64_t width) {
    const size_t bytes = CheckedMultiply<size_t>(static_cast<size_t>(rows),
                                                 static_cast<size_t>(width) * sizeof(float));
    return CheckedAdd<size_t>(bytes, 63) / 64 * 64;
  }
  size_t ScratchBytes(int64_t tokens) const {
    const size_t wide = Lines(tokens, spec_.hidden()), narrow = Lines(tokens, spec_.intermediate());
    return CheckedAdd(CheckedMultiply<size_t>(2, wide), CheckedMultiply<size_t>(2, narrow));
  }
  Scratch ScratchOf(std::byte* workspace, int64_t tokens) const {
    const auto take = [&](int64_t width) {
      float* taken = reinterpret_cast<float*>(workspace);
      workspace += Lines(tokens, width);
      return taken;
    };
    Scratch scratch{};
    scratch.x = take(spec_.hidden());
    scratch.gate = take(spec_.intermediate());
    scratch.up = take(spec_.intermediate());
    scratch.y = take(spec_.hidden());
    scratch.rest = workspace;
    return scratch;
  }

  ExpertMixtureSpec spec_;
  QuantizedMultiplier multiplier_;
  std::array<Tensor, kExpertParts> biases_;
  std::vector<Expert> experts_;
  size_t weight_bytes_ = 0;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(expert_mixture) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.ExpertMixture"},
      "A mixture of experts: each row of x goes through the `used` feed-forward layers whose "
      "router's logits are largest, and gets the sum of activation(x G^T) * (x U^T) D^T, weighted "
      "by the softmax of the logits (over the chosen ones where normalized), plus the addend. The "
      "rows of weight (G), weight_1 (U) and weight_2 (D) are those of all experts, one behind the "
      "other. sigmoid: scores are sigmoids of the logits, and correction is added to those that "
      "experts are chosen by. groups: experts are chosen from the best groups_used of these. "
      "factor: of the weights. scales_inputs: these scale inputs. limit: both products are held to "
      "it, and become g sigmoid(1.702 g) (u + 1). One rank has the experts from first_expert on, "
      "of all_experts; with sum=False it gives what each makes of its tokens, in the order of the "
      "experts, and zeros up to tokens times used rows. on_host: a GPU leaves it to the CPU");
  schema.Tensor("input", kF32Only).Tensor("router", kF32Only).OptionalTensor("addend", kF32Only);
  schema.Int("in_features").AtLeast(1).Int("intermediate").AtLeast(1);
  schema.Int("experts").AtLeast(1).Float("limit", 0.0).AtLeast(0);
  AddRoutingParams(schema);
  schema.Int("first_expert", 0).AtLeast(0).Int("all_experts", 0).AtLeast(0).Bool("sum", true);
  schema.Bool("on_host", false);
  for (int part = 0; part < kExpertParts; ++part) {
    AddStoredWeight(schema, part);
    schema.OptionalAttribute(PartName("bias", part));
  }
  AddEpilogueParams(schema);
  AddPrecisionParam(schema);
  registry.Add(schema, Create<ExpertMixture>());
}
