// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "layers/state_space/scan_heads.h"
#include "layers/state_space/state_space_kernels.h"

namespace oort {
namespace {

class DeltaScan final : public Layer {
 public:
  explicit DeltaScan(const LayerInit& init)
      : kernels_(StateSpaceKernelsFor(init.isa())),
        input_(init.Arg("input")),
        steps_(init.Arg("steps")),
        betas_(init.Arg("betas")),
        scan_(init),
        rate_(init.Weight("rate")),
        bias_(init.Weight("step_bias")) {
    RequireWeight(rate_, {scan_.heads}, "a rate of each head");
    RequireWeight(bias_, {scan_.heads}, "a bias of the step of each head");
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    const int64_t tokens = input.rank() > 0 ? input[0] : 0;
    ScanHeads::Require(input, {tokens, scan_.width}, "inputs");
    ScanHeads::Require(args.shape(steps_), {tokens, scan_.heads}, "steps");
    ScanHeads::Require(args.shape(betas_), {tokens, scan_.heads}, "betas");
    return {Tensor::Meta(DType::kF32, {tokens, scan_.inner})};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    scan_.AddWork(args.shape(input_)[0], 8, cost);
    return cost;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const Rows rows{input.data<float>(), args.tensor(steps_).data<float>(),
                    args.tensor(betas_).data<float>(), outputs[0].AsTensor().data<float>()};
    scan_.ForEach(context, input.dim(0), 4,
                  [&](const SequenceSlice& slice, int64_t head) { Run(slice, head, rows); });
  }

 private:
  static constexpr float kEpsilon = 1e-6F;  ///< of the norms of queries and keys

  struct Rows {
    const float *input, *steps, *betas;
    float* y;
  };

  /// As many tokens at a time as keep their keys and queries in a near cache.
  void Run(const SequenceSlice& slice, int64_t head, const Rows& rows) const {
    const int64_t most = std::min(std::clamp<int64_t>(kNumbersAtOnce / scan_.size, 1, 64),
                                  std::max<int64_t>(slice.count, 1));
    std::vector<float> scratch(static_cast<size_t>(2 * most * (scan_.size + 1)));
    DeltaSteps steps;
    steps.state = scan_.StateOf(slice, head);
    steps.rows = scan_.head_dim;
    steps.size = scan_.size;
    steps.v_stride = scan_.width;
    steps.y_stride = scan_.inner;
    float* const k = scratch.data();
    float* const q = k + most * scan_.size;
    float* const decay = q + most * scan_.size;
    float* const beta = decay + most;
    steps.k = k;
    steps.q = q;
    steps.decay = decay;
    steps.beta = beta;
    const int64_t of_groups = scan_.groups * scan_.size;
    const float scale = 1 / std::sqrt(static_cast<float>(scan_.size));
    for (int64_t first = 0; first < slice.count; first += most) {
      steps.tokens = std::min(most, slice.count - first);
      const int64_t row = slice.first + first;
      for (int64_t i = 0; i < steps.tokens; ++i) {
        const float* const query =
            rows.input + (row + i) * scan_.width + scan_.GroupOf(head) * scan_.size;
        kernels_.normalize(query, scan_.size, kEpsilon, scale, q + i * scan_.size);
        kernels_.normalize(query + of_groups, scan_.size, kEpsilon, 1, k + i * scan_.size);
        const int64_t at = (row + i) * scan_.heads + head;
        const float step = ScanHeads::Softplus(rows.steps[at] + bias_.data<float>()[head]);
        decay[i] = std::exp(step * rate_.data<float>()[head]);
        beta[i] = 1 / (1 + std::exp(-rows.betas[at]));
      }
      steps.v = rows.input + row * scan_.width + 2 * of_groups + head * scan_.head_dim;
      steps.y = rows.y + row * scan_.inner + head * scan_.head_dim;
      kernels_.delta_steps(steps);
    }
  }

  static constexpr int64_t kNumbersAtOnce = 2048;

  const StateSpaceKernels& kernels_;
  int input_, steps_, betas_;
  ScanHeads scan_;
  Tensor rate_, bias_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(delta_scan) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.DeltaScan"},
      "The gated delta rule (Yang, Kautz and Hatamizadeh 2025), as Qwen3-Next has it. input: "
      "(tokens, 2 * groups * size + heads * head_dim), which are queries and keys of each group, "
      "then values of each head; steps and betas: (tokens, heads). Queries and keys are divided "
      "by their lengths, queries by the root of size, too. With dt = softplus(step + step_bias), "
      "the state (head_dim, size) of a head is multiplied with exp(dt * rate), grows by "
      "sigmoid(beta) * (value - state * key) key^T, and the result, (tokens, heads * head_dim), "
      "is state * query. Sequences and their states come with the run");
  schema.Tensor("input", kF32Only).Tensor("steps", kF32Only).Tensor("betas", kF32Only);
  ScanHeads::Declare(schema).Attribute("rate", kF32Only).Attribute("step_bias", kF32Only).Random();
  registry.Add(std::move(schema), Create<DeltaScan>());
}
