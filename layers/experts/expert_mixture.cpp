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
#include "layers/epilogue.h"
#include "layers/experts/expert_routing.h"
#include "layers/precision_param.h"
#include "layers/quantized_linear/answer_rows.h"
#include "layers/quantized_linear/stored_weight.h"

namespace oort {
namespace {

enum Part : unsigned char { kGate, kUp, kDown };

/// Feed-forward layers of which each token goes through a few. Rows are grouped by expert, so that
/// only experts in use are read, and each of them once.
class ExpertMixture final : public Layer {
 public:
  explicit ExpertMixture(const LayerInit& init)
      : input_(init.Arg("input")),
        router_(init.Arg("router")),
        hidden_(init.Int("in_features")),
        intermediate_(init.Int("intermediate")),
        held_(init.Int("experts")),
        first_(init.Int("first_expert")),
        sums_(init.Bool("sum")),
        correction_(init.Weight("correction")),
        rule_(ReadRoutingRule(init, std::max(init.Int("all_experts"), held_), correction_)),
        limit_(static_cast<float>(init.Float("limit"))),
        epilogue_(init),
        multiplier_(init.isa(), ReadPrecision(init)),
        packed_(StoredArguments(init, 3)) {
    if (first_ > rule_.experts - held_) {
      throw Error(ErrorCode::kInvalidModel, std::to_string(held_) + " experts from expert " +
                                                std::to_string(first_) + " on are no part of " +
                                                std::to_string(rule_.experts));
    }
    if (ReadPrecision(init) != Precision::kF32) epilogue_.AllowRough();
    for (const Part part : {kGate, kUp, kDown}) Pack(init, part);
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& shape = args.shape(input_);
    if (shape.rank() != 2 || shape[1] != hidden_ ||
        args.shape(router_) != Shape{shape[0], rule_.experts}) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an input (tokens," + std::to_string(hidden_) +
                      ") and a router's logits (tokens," + std::to_string(rule_.experts) +
                      "), got " + shape.ToString() + " and " + args.shape(router_).ToString());
    }
    epilogue_.Check(args, shape);
    if (sums_) return {Tensor::Meta(DType::kF32, shape)};
    if (epilogue_.has_addend(args)) {
      throw Error(ErrorCode::kInvalidArgument, "rows that are not summed up get no addend");
    }
    return {Tensor::Meta(DType::kF32, {CheckedMultiply(shape[0], rule_.used), hidden_})};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t tokens = args.shape(input_)[0];
    const float* x = args.tensor(input_).data<float>();
    Tensor& out = outputs[0].AsTensor();
    if (const float* addend = epilogue_.addend(args)) {
      std::memcpy(out.raw(), addend, out.bytes());
    } else {
      std::memset(out.raw(), 0, out.bytes());
    }
    const ExpertRouting routing(rule_, args.tensor(router_).data<float>(), tokens);
    const Scratch scratch = ScratchOf(context.workspace(), tokens);
    const bool apart = AreAnswersApart(context, multiplier_);
    float* next = out.data<float>();  // where rows are not summed up
    for (const int64_t expert : routing.experts_in_use()) {
      if (expert < first_ || expert >= first_ + held_) continue;  // another rank has it
      const int64_t rows = routing.count(expert);
      const RoutedToken* routed = routing.begin(expert);
      const float* gathered = x + routed->token * hidden_;
      if (rows > 1 || rule_.scales_inputs) {
        Gather(context, x, routed, rows, scratch.x);
        gathered = scratch.x;
      }
      float* y = sums_ ? scratch.y : next;
      Run(context, expert - first_, gathered, rows, apart, scratch, y);
      next += rows * hidden_;
      if (sums_) AddWeighted(context, y, routed, rows, hidden_, out.data<float>());
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    const int64_t tokens = args.shape(input_)[0];
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

  bool Packs(int argument) const override { return IsAmong(packed_, argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    const auto tokens = static_cast<double>(args.shape(input_)[0]);
    const double at_most =
        std::min(tokens * static_cast<double>(rule_.used), static_cast<double>(rule_.experts));
    Cost cost;
    const double share = static_cast<double>(held_) / static_cast<double>(rule_.experts);
    cost.flops = 6 * tokens * static_cast<double>(rule_.used) * static_cast<double>(hidden_) *
                 static_cast<double>(intermediate_) * share;
    cost.bytes = static_cast<double>(weight_bytes_) / static_cast<double>(rule_.experts) * at_most +
                 static_cast<double>(args.tensor(input_).bytes()) +
                 static_cast<double>(outputs[0].AsTensor().bytes());
    return cost;
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

  int64_t RowsOf(Part part) const { return part == kDown ? hidden_ : intermediate_; }

  void Pack(const LayerInit& init, Part part) {
    const int64_t rows = RowsOf(part);
    const int64_t columns = part == kDown ? intermediate_ : hidden_;
    const StoredMatrix all = ReadStored(init, part, CheckedMultiply<int64_t>(held_, rows), columns);
    biases_[part] = init.Weight(PartName("bias", part));
    if (biases_[part].defined() && biases_[part].shape() != Shape{held_ * rows}) {
      throw Error(ErrorCode::kInvalidModel, "expected a bias of " + std::to_string(held_ * rows) +
                                                " elements, got " + biases_[part].ToString());
    }
    const float* bias = biases_[part].defined() ? biases_[part].data<float>() : nullptr;
    experts_.resize(static_cast<size_t>(held_));
    for (int64_t e = 0; e < held_; ++e) {
      Expert& expert = experts_[static_cast<size_t>(e)];
      const auto matrix = std::make_shared<const QuantizedMatrix>(
          StoredRows(all, e, rows), AvailableThreads(), multiplier_.scales());
      weight_bytes_ += matrix->bytes();
      const float* own = bias == nullptr ? nullptr : bias + e * rows;
      if (part == kDown) {
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
    QuantizedProduct product = ProductOf(rows, hidden_, apart);
    product.matrices = weights.up;
    product.biases = weights.up_bias;
    product.gated = limit_ == 0;
    if (product.gated) product.activation = epilogue_.activation();
    return product;
  }
  QuantizedProduct DownProduct(int64_t expert, int64_t rows, bool apart) const {
    const Expert& weights = experts_[static_cast<size_t>(expert)];
    QuantizedProduct product = ProductOf(rows, intermediate_, apart);
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
    if (!up.gated) ClampAndGate(context, rows * intermediate_, scratch.gate, scratch.up);
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
        const float g = std::min(gate[i], limit_);
        const float u = std::clamp(up[i], -limit_, limit_);
        gate[i] = (u + 1) * (g / (1 + std::exp(-kSlope * g)));
      }
    });
  }

  void Gather(const Context& context, const float* x, const RoutedToken* routed, int64_t rows,
              float* to) const {
    const double bytes = static_cast<double>(hidden_) * 8;
    context.ParallelFor(rows, GrainOf({bytes, 0}), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* from = x + routed[row].token * hidden_;
        if (!rule_.scales_inputs) {
          std::copy_n(from, hidden_, to + row * hidden_);
          continue;
        }
        const float scale = routed[row].scale;
        for (int64_t i = 0; i < hidden_; ++i) to[row * hidden_ + i] = from[i] * scale;
      }
    });
  }

  static size_t Lines(int64_t rows, int64_t width) {
    const size_t bytes = CheckedMultiply<size_t>(static_cast<size_t>(rows),
                                                 static_cast<size_t>(width) * sizeof(float));
    return CheckedAdd<size_t>(bytes, 63) / 64 * 64;
  }
  size_t ScratchBytes(int64_t tokens) const {
    const size_t wide = Lines(tokens, hidden_), narrow = Lines(tokens, intermediate_);
    return CheckedAdd(CheckedMultiply<size_t>(2, wide), CheckedMultiply<size_t>(2, narrow));
  }
  Scratch ScratchOf(std::byte* workspace, int64_t tokens) const {
    const auto take = [&](int64_t width) {
      float* taken = reinterpret_cast<float*>(workspace);
      workspace += Lines(tokens, width);
      return taken;
    };
    Scratch scratch{};
    scratch.x = take(hidden_);
    scratch.gate = take(intermediate_);
    scratch.up = take(intermediate_);
    scratch.y = take(hidden_);
    scratch.rest = workspace;
    return scratch;
  }

  int input_, router_;
  int64_t hidden_, intermediate_;
  int64_t held_, first_;  // experts
  bool sums_;
  Tensor correction_;  ///< before the rule, which looks at it
  RoutingRule rule_;
  float limit_;
  FusedEpilogue epilogue_;
  QuantizedMultiplier multiplier_;
  std::vector<int> packed_;
  std::array<Tensor, 3> biases_;
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
      "factor: of the weights. scales_inputs: these scale inputs of experts, not what they give. "
      "limit: both products are held to it, and become g sigmoid(1.702 g) (u + 1). One rank has "
      "the experts from first_expert on, of all_experts that a router knows; with sum=False it "
      "gives what each of them makes of each of its tokens, one row behind the other in the order "
      "of the experts, and zeros up to tokens times used rows");
  schema.Tensor("input", kF32Only).Tensor("router", kF32Only).OptionalTensor("addend", kF32Only);
  schema.Int("in_features").AtLeast(1).Int("intermediate").AtLeast(1);
  schema.Int("experts").AtLeast(1).Float("limit", 0.0).AtLeast(0);
  AddRoutingParams(schema);
  schema.Int("first_expert", 0).AtLeast(0).Int("all_experts", 0).AtLeast(0).Bool("sum", true);
  for (int part = 0; part < 3; ++part) {
    AddStoredWeight(schema, part);
    schema.OptionalAttribute(PartName("bias", part));
  }
  AddEpilogueParams(schema);
  AddPrecisionParam(schema);
  registry.Add(schema, Create<ExpertMixture>());
}
