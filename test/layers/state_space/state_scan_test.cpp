// SPDX-License-Identifier: MIT
// oort.StateScan against the same in f64, token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/one_operator_graph.h"
#include "layers/state_space/run_in_steps.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

struct ScanCase {
  int64_t heads = 4, head_dim = 5, groups = 2, size = 19;
  double least = 0, most = 0;

  int64_t inner() const { return heads * head_dim; }
  int64_t width() const { return inner() + 2 * groups * size; }
  Tensor rate() const { return Negative(RandomTensor(DType::kF32, {heads}, 5)); }
  Tensor skip() const { return RandomTensor(DType::kF32, {heads}, 6); }
  Tensor bias() const { return RandomTensor(DType::kF32, {heads}, 7); }
  StateShape shape() const { return {2, 0, inner() * size}; }

  Graph Build() const {
    Operator op;
    op.type = "oort.StateScan";
    op.params["layer"] = Parameter("1");
    op.params["heads"] = Parameter(std::to_string(heads));
    op.params["head_dim"] = Parameter(std::to_string(head_dim));
    op.params["groups"] = Parameter(std::to_string(groups));
    op.params["size"] = Parameter(std::to_string(size));
    op.params["least_step"] = Parameter(std::to_string(least));
    op.params["most_step"] = Parameter(std::to_string(most));
    op.attributes["rate"] = rate();
    op.attributes["skip"] = skip();
    op.attributes["step_bias"] = bias();
    return GraphOf(std::move(op), {"input", "steps"});
  }

 private:
  static Tensor Negative(Tensor tensor) {
    float* const values = tensor.data<float>();
    for (int64_t i = 0; i < tensor.elements(); ++i) values[i] = -std::abs(values[i]);
    return tensor;
  }
};

Tensor ScanInF64(const ScanCase& c, const Tensor& input, const Tensor& steps) {
  const int64_t tokens = input.dim(0);
  Tensor out(DType::kF32, Shape{tokens, c.inner()});
  const Tensor rate = c.rate(), skip = c.skip(), bias = c.bias();
  for (int64_t head = 0; head < c.heads; ++head) {
    std::vector<double> state(static_cast<size_t>(c.head_dim * c.size));
    const int64_t group = head / (c.heads / c.groups);
    for (int64_t token = 0; token < tokens; ++token) {
      const float* const row = input.data<float>() + token * c.width();
      const float* const b = row + c.inner() + group * c.size;
      const float* const after = b + c.groups * c.size;
      const double raw = static_cast<double>(steps.data<float>()[token * c.heads + head]) +
                         static_cast<double>(bias.data<float>()[head]);
      double step = std::max(std::log1p(std::exp(raw)), c.least);
      if (c.most > 0) step = std::min(step, c.most);
      const double decay = std::exp(step * static_cast<double>(rate.data<float>()[head]));
      for (int64_t d = 0; d < c.head_dim; ++d) {
        const double x = static_cast<double>(row[head * c.head_dim + d]);
        double sum = x * static_cast<double>(skip.data<float>()[head]);
        for (int64_t n = 0; n < c.size; ++n) {
          double& number = state[static_cast<size_t>(d * c.size + n)];
          number = decay * number + step * x * static_cast<double>(b[n]);
          sum += number * static_cast<double>(after[n]);
        }
        out.data<float>()[token * c.inner() + head * c.head_dim + d] = static_cast<float>(sum);
      }
    }
  }
  return out;
}

TEST(StateScan, IsTheRecurrence) {
  for (const ScanCase& c : {ScanCase{}, ScanCase{.size = 16, .least = 0.4, .most = 0.9},
                            ScanCase{.heads = 3, .head_dim = 9, .groups = 1, .size = 40}}) {
    std::vector<std::vector<Tensor>> inputs;
    for (const int64_t tokens : {int64_t{9}, int64_t{14}}) {
      const uint64_t seed = static_cast<uint64_t>(tokens);
      inputs.push_back({RandomTensor(DType::kF32, {tokens, c.width()}, seed),
                        RandomTensor(DType::kF32, {tokens, c.heads}, seed + 1)});
    }
    for (const Isa isa : SupportedIsas()) {
      SCOPED_TRACE(Name(isa));
      const auto whole = RunInSteps(c.Build(), isa, c.shape(), inputs, kAtOnce, 1);
      for (size_t i = 0; i < whole.size(); ++i) {
        ExpectNearRows(whole[i], ScanInF64(c, inputs[i][0], inputs[i][1]));
      }
      // Bit by bit, however the tokens come and whoever computes them.
      EXPECT_EQ(RunInSteps(c.Build(), isa, c.shape(), inputs, kInParts, 3), whole);
    }
  }
}

TEST(StateScan, RefusesWhatDoesNotFit) {
  const ScanCase c;
  const std::vector<Tensor> inputs = {RandomTensor(DType::kF32, {3, c.width()}, 1),
                                      RandomTensor(DType::kF32, {3, c.heads}, 2)};
  const auto refuses = [&](const SequenceBatch* batch, const std::string& why) {
    Session session(RuntimeGraph::Build(c.Build()));
    RunOptions run;
    run.state = batch;
    ExpectThrows([&] { session.Forward(inputs, run); }, ErrorCode::kInvalidArgument, why);
  };
  refuses(nullptr, "needs a SequenceBatch");
  SequenceSlice slice{0, 3, 0, {}};
  refuses(std::make_unique<SequenceBatch>(std::span(&slice, 1), nullptr).get(), "has no state");
  SequenceState other({2, 0, 7}), shallow({1, 0, c.inner() * c.size}), fits(c.shape());
  slice.state = &other;
  refuses(std::make_unique<SequenceBatch>(std::span(&slice, 1), nullptr).get(), "of another model");
  slice.state = &shallow;
  refuses(std::make_unique<SequenceBatch>(std::span(&slice, 1), nullptr).get(), "of another model");
  slice.state = &fits;
  slice.count = 2;
  refuses(std::make_unique<SequenceBatch>(std::span(&slice, 1), nullptr).get(), "have 2 rows");
  Graph uneven = c.Build();
  uneven.operators[static_cast<size_t>(uneven.FindOperator("tested"))].params["groups"] =
      Parameter("3");
  ExpectThrows([&] { RuntimeGraph::Build(uneven); }, ErrorCode::kInvalidModel,
               "cannot share 3 groups");
}

}  // namespace
}  // namespace oort::testing
