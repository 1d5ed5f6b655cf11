// SPDX-License-Identifier: MIT
// oort.DeltaScan against the same in f64, token by token.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/one_operator_graph.h"
#include "layers/state_space/run_in_steps.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

struct DeltaCase {
  int64_t heads = 4, head_dim = 5, groups = 2, size = 19;

  int64_t inner() const { return heads * head_dim; }
  int64_t width() const { return inner() + 2 * groups * size; }
  Tensor rate() const {
    Tensor rates = RandomTensor(DType::kF32, {heads}, 5);
    for (int64_t i = 0; i < heads; ++i) rates.data<float>()[i] = -std::abs(rates.data<float>()[i]);
    return rates;
  }
  Tensor bias() const { return RandomTensor(DType::kF32, {heads}, 7); }
  StateShape shape() const { return {2, 0, inner() * size}; }

  Graph Build() const {
    Operator op;
    op.type = "oort.DeltaScan";
    op.params["layer"] = Parameter("1");
    op.params["heads"] = Parameter(std::to_string(heads));
    op.params["head_dim"] = Parameter(std::to_string(head_dim));
    op.params["groups"] = Parameter(std::to_string(groups));
    op.params["size"] = Parameter(std::to_string(size));
    op.attributes["rate"] = rate();
    op.attributes["step_bias"] = bias();
    return GraphOf(std::move(op), {"input", "steps", "betas"});
  }
  std::vector<Tensor> Inputs(int64_t tokens) const {
    const uint64_t seed = static_cast<uint64_t>(tokens);
    return {RandomTensor(DType::kF32, {tokens, width()}, seed),
            RandomTensor(DType::kF32, {tokens, heads}, seed + 1),
            RandomTensor(DType::kF32, {tokens, heads}, seed + 2)};
  }
};

std::vector<double> UnitVector(const float* x, int64_t size) {
  std::vector<double> unit(x, x + size);
  double squares = 1e-6;
  for (const double number : unit) squares += number * number;
  for (double& number : unit) number /= std::sqrt(squares);
  return unit;
}

Tensor DeltaInF64(const DeltaCase& c, const std::vector<Tensor>& inputs) {
  const int64_t tokens = inputs[0].dim(0);
  Tensor out(DType::kF32, Shape{tokens, c.inner()});
  const Tensor rate = c.rate(), bias = c.bias();
  for (int64_t head = 0; head < c.heads; ++head) {
    std::vector<double> state(static_cast<size_t>(c.head_dim * c.size));
    for (int64_t token = 0; token < tokens; ++token) {
      const float* const row = inputs[0].data<float>() + token * c.width();
      const float* const of_group = row + head / (c.heads / c.groups) * c.size;
      const std::vector<double> q = UnitVector(of_group, c.size);
      const std::vector<double> k = UnitVector(of_group + c.groups * c.size, c.size);
      const int64_t at = token * c.heads + head;
      const double step = std::log1p(std::exp(static_cast<double>(inputs[1].data<float>()[at]) +
                                              static_cast<double>(bias.data<float>()[head])));
      const double decay = std::exp(step * static_cast<double>(rate.data<float>()[head]));
      const double beta = 1 / (1 + std::exp(-static_cast<double>(inputs[2].data<float>()[at])));
      for (int64_t d = 0; d < c.head_dim; ++d) {
        double* const numbers = state.data() + d * c.size;
        double known = 0, sum = 0;
        for (int64_t n = 0; n < c.size; ++n) {
          numbers[n] *= decay;
          known += numbers[n] * k[static_cast<size_t>(n)];
        }
        const int64_t place = head * c.head_dim + d;
        const double value = static_cast<double>(row[2 * c.groups * c.size + place]);
        for (int64_t n = 0; n < c.size; ++n) {
          numbers[n] += beta * (value - known) * k[static_cast<size_t>(n)];
          sum += numbers[n] * q[static_cast<size_t>(n)];
        }
        out.data<float>()[token * c.inner() + place] =
            static_cast<float>(sum / std::sqrt(static_cast<double>(c.size)));
      }
    }
  }
  return out;
}

TEST(DeltaScan, IsTheRecurrence) {
  for (const DeltaCase& c : {DeltaCase{}, DeltaCase{.size = 16},
                             DeltaCase{.heads = 3, .head_dim = 9, .groups = 1, .size = 400}}) {
    const std::vector<std::vector<Tensor>> inputs = {c.Inputs(9), c.Inputs(14)};
    for (const Isa isa : SupportedIsas()) {
      SCOPED_TRACE(Name(isa));
      const auto whole = RunInSteps(c.Build(), isa, c.shape(), inputs, kAtOnce, 1);
      for (size_t i = 0; i < whole.size(); ++i) ExpectNearRows(whole[i], DeltaInF64(c, inputs[i]));
      // Bit by bit, however the tokens come and whoever computes them.
      EXPECT_EQ(RunInSteps(c.Build(), isa, c.shape(), inputs, kInParts, 3), whole);
    }
  }
}

TEST(DeltaScan, RefusesWhatDoesNotFit) {
  const DeltaCase c;
  std::vector<Tensor> inputs = c.Inputs(3);
  const auto refuses = [&](const SequenceBatch* batch, const std::string& why) {
    Session session(RuntimeGraph::Build(c.Build()));
    RunOptions run;
    run.state = batch;
    ExpectThrows([&] { session.Forward(inputs, run); }, ErrorCode::kInvalidArgument, why);
  };
  refuses(nullptr, "needs a SequenceBatch");
  SequenceState other({2, 0, 7}), fits(c.shape());
  SequenceSlice slice{0, 3, 0, {}};
  slice.state = &other;
  const SequenceBatch wrong(std::span(&slice, 1), nullptr);
  refuses(&wrong, "of another model");
  slice.state = &fits;
  const SequenceBatch right(std::span(&slice, 1), nullptr);
  inputs[2] = RandomTensor(DType::kF32, {3, c.heads + 1}, 1);
  refuses(&right, "expected betas");
  Graph uneven = c.Build();
  uneven.operators[static_cast<size_t>(uneven.FindOperator("tested"))].params["groups"] =
      Parameter("3");
  ExpectThrows([&] { RuntimeGraph::Build(uneven); }, ErrorCode::kInvalidModel,
               "cannot share 3 groups");
}

}  // namespace
}  // namespace oort::testing
