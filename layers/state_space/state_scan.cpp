// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "layers/state_space/scan_heads.h"
#include "layers/state_space/state_space_kernels.h"

namespace oort {
namespace {

class StateScan final : public Layer {
 public:
  explicit StateScan(const LayerInit& init)
      : kernels_(StateSpaceKernelsFor(init.isa())),
        input_(init.Arg("input")),
        steps_(init.Arg("steps")),
        scan_(init),
        least_(static_cast<float>(init.Float("least_step"))),
        most_(init.Float("most_step") > 0 ? static_cast<float>(init.Float("most_step"))
                                          : std::numeric_limits<float>::infinity()),
        rate_(init.Weight("rate")),
        skip_(init.Weight("skip")),
        bias_(init.Weight("step_bias")) {
    if (!(least_ <= most_)) {
      throw Error(ErrorCode::kInvalidModel, "least_step is more than most_step");
    }
    RequireWeight(rate_, {scan_.heads}, "a rate of each head");
    RequireWeight(skip_, {scan_.heads}, "a share of the input of each head");
    RequireWeight(bias_, {scan_.heads}, "a bias of the step of each head");
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    const int64_t tokens = input.rank() > 0 ? input[0] : 0;
    ScanHeads::Require(input, {tokens, scan_.width}, "inputs");
    ScanHeads::Require(args.shape(steps_), {tokens, scan_.heads}, "steps");
    return {Tensor::Meta(DType::kF32, {tokens, scan_.inner})};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    scan_.AddWork(args.shape(input_)[0], 6, cost);
    return cost;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const float* const x = input.data<float>();
    const float* const steps = args.tensor(steps_).data<float>();
    float* const y = outputs[0].AsTensor().data<float>();
    scan_.ForEach(context, input.dim(0), 3,
                  [&](const SequenceSlice& slice, int64_t head) { Run(slice, head, x, steps, y); });
  }

 private:
  void Run(const SequenceSlice& slice, int64_t head, const float* x, const float* steps,
           float* y) const {
    StateStep token;
    token.state = scan_.StateOf(slice, head);
    token.rows = scan_.head_dim;
    token.size = scan_.size;
    token.skip = skip_.data<float>()[head];
    for (int64_t row = slice.first; row < slice.first + slice.count; ++row) {
      const float* const of_token = x + row * scan_.width;
      const float raw = steps[row * scan_.heads + head] + bias_.data<float>()[head];
      token.step = std::clamp(ScanHeads::Softplus(raw), least_, most_);
      token.decay = std::exp(token.step * rate_.data<float>()[head]);
      token.x = of_token + head * scan_.head_dim;
      token.b = of_token + scan_.inner + scan_.GroupOf(head) * scan_.size;
      token.c = token.b + scan_.groups * scan_.size;
      token.y = y + row * scan_.inner + head * scan_.head_dim;
      kernels_.step(token);
    }
  }

  const StateSpaceKernels& kernels_;
  int input_, steps_;
  ScanHeads scan_;
  float least_, most_;
  Tensor rate_, skip_, bias_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(state_scan) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.StateScan"},
      "The selective state space of Mamba-2 (Dao and Gu 2024). input: (tokens, "
      "heads * head_dim + 2 * groups * size), which are x of each head, then b and "
      "c of each group; steps: (tokens, heads). With dt = softplus(step + "
      "step_bias), between least_step and most_step (0: no limit), the state (head_dim, "
      "size) of a head becomes exp(dt * rate) * state + dt * x b^T, and the result, (tokens, "
      "heads * head_dim), is state * c + skip * x. Sequences and their states come "
      "with the run");
  schema.Tensor("input", kF32Only).Tensor("steps", kF32Only);
  ScanHeads::Declare(schema)
      .Float("least_step", 0.0)
      .AtLeast(0)
      .Float("most_step", 0.0)
      .AtLeast(0)
      .Attribute("rate", kF32Only)
      .Attribute("skip", kF32Only)
      .Attribute("step_bias", kF32Only)
      .Random();
  registry.Add(std::move(schema), Create<StateScan>());
}
