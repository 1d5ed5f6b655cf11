// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/checked.h"
#include "core/parallel.h"
#include "layers/state_space/state_batch.h"
#include "layers/state_space/state_space_kernels.h"

namespace oort {
namespace {

class StateScan final : public Layer {
 public:
  explicit StateScan(const LayerInit& init)
      : kernels_(StateSpaceKernelsFor(init.isa())),
        input_(init.Arg("input")),
        steps_(init.Arg("steps")),
        layer_(init.Int("layer")),
        heads_(init.Int("heads")),
        head_dim_(init.Int("head_dim")),
        groups_(init.Int("groups")),
        size_(init.Int("size")),
        least_(static_cast<float>(init.Float("least_step"))),
        most_(init.Float("most_step") > 0 ? static_cast<float>(init.Float("most_step"))
                                          : std::numeric_limits<float>::infinity()),
        rate_(init.Weight("rate")),
        skip_(init.Weight("skip")),
        bias_(init.Weight("step_bias")) {
    if (heads_ % groups_ != 0) {
      throw Error(ErrorCode::kInvalidModel, std::to_string(heads_) + " heads cannot share " +
                                                std::to_string(groups_) + " groups evenly");
    }
    if (!(least_ <= most_)) {
      throw Error(ErrorCode::kInvalidModel, "least_step is more than most_step");
    }
    inner_ = CheckedMultiply(heads_, head_dim_);
    width_ = CheckedAdd(inner_, CheckedMultiply(CheckedMultiply(groups_, size_), int64_t{2}));
    state_ = CheckedMultiply(inner_, size_);
    RequireWeight(rate_, {heads_}, "a rate of each head");
    RequireWeight(skip_, {heads_}, "a share of the input of each head");
    RequireWeight(bias_, {heads_}, "a bias of the step of each head");
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    const int64_t tokens = input.rank() > 0 ? input[0] : 0;
    Require(input, {tokens, width_}, "inputs");
    Require(args.shape(steps_), {tokens, heads_}, "steps");
    return {Tensor::Meta(DType::kF32, {tokens, inner_})};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    // Of how many sequences the tokens are is not known here: one state is read and written.
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 6 * static_cast<double>(args.shape(input_)[0]) * static_cast<double>(state_);
    cost.bytes += 2 * sizeof(float) * static_cast<double>(state_);
    return cost;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const float* const x = input.data<float>();
    const float* const steps = args.tensor(steps_).data<float>();
    float* const y = outputs[0].AsTensor().data<float>();
    const auto slices = StatesOf(context, input.dim(0), {layer_, -1, state_});
    const int64_t sequences = std::ssize(slices);
    const double numbers = static_cast<double>(head_dim_ * size_);
    const double tokens =
        static_cast<double>(input.dim(0)) / static_cast<double>(std::max<int64_t>(sequences, 1));
    const int64_t grain = GrainOf({numbers * 8, numbers * 3 * tokens});
    // Every head of every sequence is for itself, whatever else a step has.
    context.ParallelFor(sequences * heads_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Run(slices[static_cast<size_t>(i / heads_)], i % heads_, x, steps, y);
      }
    });
  }

 private:
  static void Require(const Shape& got, const Shape& expected, const char* what) {
    if (got == expected) return;
    throw Error(ErrorCode::kInvalidArgument, std::string("expected ") + what + " " +
                                                 expected.ToString() + ", got " + got.ToString());
  }

  void Run(const SequenceSlice& slice, int64_t head, const float* x, const float* steps,
           float* y) const {
    StateStep token;
    token.state = slice.state->Recurrence(layer_) + head * head_dim_ * size_;
    if (slice.position == 0) std::fill_n(token.state, head_dim_ * size_, 0.0f);
    token.rows = head_dim_;
    token.size = size_;
    token.skip = skip_.data<float>()[head];
    const int64_t group = head / (heads_ / groups_);
    for (int64_t row = slice.first; row < slice.first + slice.count; ++row) {
      const float* const of_token = x + row * width_;
      token.step = StepOf(steps[row * heads_ + head] + bias_.data<float>()[head]);
      token.decay = std::exp(token.step * rate_.data<float>()[head]);
      token.x = of_token + head * head_dim_;
      token.b = of_token + inner_ + group * size_;
      token.c = token.b + groups_ * size_;
      token.y = y + row * inner_ + head * head_dim_;
      kernels_.step(token);
    }
  }

  /// Softplus as torch has it, within the limits.
  float StepOf(float x) const {
    constexpr float kStraight = 20;
    return std::clamp(x > kStraight ? x : std::log1p(std::exp(x)), least_, most_);
  }

  const StateSpaceKernels& kernels_;
  int input_, steps_;
  int64_t layer_, heads_, head_dim_, groups_, size_;
  int64_t inner_ = 0, width_ = 0, state_ = 0;
  float least_, most_;
  Tensor rate_, skip_, bias_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(state_scan) {
  using namespace oort;
  registry.Add(
      OperatorSchema(
          {"oort.StateScan"},
          "The selective state space of Mamba-2 (Dao and Gu 2024). input: (tokens, "
          "heads * head_dim + 2 * groups * size), which are x of each head, then b and "
          "c of each group; steps: (tokens, heads). With dt = softplus(step + "
          "step_bias), between least_step and most_step (0: no limit), the state (head_dim, "
          "size) of a head becomes exp(dt * rate) * state + dt * x b^T, and the result, (tokens, "
          "heads * head_dim), is state * c + skip * x. Sequences and their states come "
          "with the run")
          .Tensor("input", kF32Only)
          .Tensor("steps", kF32Only)
          .Int("layer")
          .AtLeast(0)
          .Int("heads")
          .AtLeast(1)
          .Int("head_dim")
          .AtLeast(1)
          .Int("groups", 1)
          .AtLeast(1)
          .Int("size")
          .AtLeast(1)
          .Float("least_step", 0.0)
          .AtLeast(0)
          .Float("most_step", 0.0)
          .AtLeast(0)
          .Attribute("rate", kF32Only)
          .Attribute("skip", kF32Only)
          .Attribute("step_bias", kF32Only)
          .Random(),
      Create<StateScan>());
}
