// SPDX-License-Identifier: MIT
// oort.ShortConvolution and oort.StateScan against the same in f64, token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/one_operator_graph.h"
#include "oort/kv_cache.h"
#include "oort/oort.h"
#include "oort/sequence_state.h"
#include "oort/testing.h"

namespace oort {
namespace {

struct ScanCase {
  int64_t heads = 4, head_dim = 5, groups = 2, size = 19;
  double least = 0, most = 0;

  int64_t inner() const { return heads * head_dim; }
  int64_t width() const { return inner() + 2 * groups * size; }
  Tensor rate() const { return Negative(testing::RandomTensor(DType::kF32, {heads}, 5)); }
  Tensor skip() const { return testing::RandomTensor(DType::kF32, {heads}, 6); }
  Tensor bias() const { return testing::RandomTensor(DType::kF32, {heads}, 7); }
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
    return testing::GraphOf(std::move(op), {"input", "steps"});
  }

 private:
  static Tensor Negative(Tensor tensor) {
    float* const values = tensor.data<float>();
    for (int64_t i = 0; i < tensor.elements(); ++i) values[i] = -std::abs(values[i]);
    return tensor;
  }
};

Tensor StepRowsOf(const Tensor& all, int64_t first, int64_t count) {
  return Tensor::From(all.span<float>().subspan(static_cast<size_t>(first * all.dim(1)),
                                                static_cast<size_t>(count * all.dim(1))),
                      Shape{count, all.dim(1)});
}

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

/// Sequences that take turns and share steps, as `parts` says: how many tokens of each come in a
/// step. Returns the rows of each sequence. States begin with garbage.
std::vector<std::vector<float>> RunInSteps(const Graph& graph, Isa isa, const StateShape& shape,
                                           const std::vector<std::vector<Tensor>>& inputs,
                                           const std::vector<std::vector<int64_t>>& parts,
                                           int threads) {
  LoadOptions load;
  load.isa = isa;
  Session session(RuntimeGraph::Build(graph, load), {.threads = threads});
  std::vector<std::unique_ptr<SequenceState>> states;
  for (size_t i = 0; i < inputs.size(); ++i) {
    states.push_back(std::make_unique<SequenceState>(shape));
    std::fill_n(states.back()->Inputs(0), static_cast<int64_t>(shape.bytes() / sizeof(float)), NAN);
  }
  std::vector<int64_t> positions(inputs.size());
  std::vector<std::vector<float>> rows(inputs.size());
  for (const std::vector<int64_t>& step : parts) {
    std::vector<SequenceSlice> slices;
    int64_t first = 0;
    for (size_t i = 0; i < step.size(); ++i) {
      SequenceSlice slice{first, step[i], positions[i], {}};
      slice.state = states[i].get();
      slices.push_back(slice);
      first += step[i];
    }
    std::vector<Tensor> joined;
    for (size_t input = 0; input < inputs[0].size(); ++input) {
      std::vector<float> all;
      for (size_t i = 0; i < step.size(); ++i) {
        const Tensor part = StepRowsOf(inputs[i][input], positions[i], step[i]);
        all.insert(all.end(), part.span<float>().begin(), part.span<float>().end());
      }
      joined.push_back(
          Tensor::From(std::span<const float>(all), Shape{first, inputs[0][input].dim(1)}));
    }
    const SequenceBatch batch(slices, nullptr);
    RunOptions run;
    run.state = &batch;
    const Tensor out = session.Forward(joined, run).at(0);
    for (size_t i = 0; i < step.size(); ++i) {
      const Tensor part = StepRowsOf(out, slices[i].first, step[i]);
      rows[i].insert(rows[i].end(), part.span<float>().begin(), part.span<float>().end());
      positions[i] += step[i];
    }
  }
  return rows;
}

void ExpectNearRows(const std::vector<float>& got, const Tensor& want) {
  ASSERT_EQ(static_cast<int64_t>(got.size()), want.elements());
  for (size_t i = 0; i < got.size(); ++i) {
    const float number = want.span<float>()[i];
    ASSERT_NEAR(got[i], number, 2e-5 + 2e-5 * std::abs(number)) << i;
  }
}

const std::vector<std::vector<int64_t>> kAtOnce = {{9, 14}};
const std::vector<std::vector<int64_t>> kInParts = {{4, 0}, {1, 1}, {1, 9}, {0, 3}, {3, 1}};

TEST(StateScan, IsTheRecurrence) {
  for (const ScanCase& c : {ScanCase{}, ScanCase{.size = 16, .least = 0.4, .most = 0.9},
                            ScanCase{.heads = 3, .head_dim = 9, .groups = 1, .size = 40}}) {
    std::vector<std::vector<Tensor>> inputs;
    for (const int64_t tokens : {int64_t{9}, int64_t{14}}) {
      const uint64_t seed = static_cast<uint64_t>(tokens);
      inputs.push_back({testing::RandomTensor(DType::kF32, {tokens, c.width()}, seed),
                        testing::RandomTensor(DType::kF32, {tokens, c.heads}, seed + 1)});
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

Graph ConvolutionGraph(const Tensor& weight, const Tensor& bias) {
  Operator op;
  op.type = "oort.ShortConvolution";
  op.params["layer"] = Parameter("1");
  op.attributes["weight"] = weight;
  if (bias.defined()) op.attributes["bias"] = bias;
  return testing::GraphOf(std::move(op), {"input"});
}

Tensor ConvolveInF64(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const int64_t channels = weight.dim(0), taps = weight.dim(1);
  Tensor out(DType::kF32, input.shape());
  for (int64_t token = 0; token < input.dim(0); ++token) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = bias.defined() ? static_cast<double>(bias.data<float>()[c]) : 0;
      for (int64_t t = std::max<int64_t>(0, taps - 1 - token); t < taps; ++t) {
        sum += static_cast<double>(weight.data<float>()[c * taps + t]) *
               static_cast<double>(input.data<float>()[(token + t - taps + 1) * channels + c]);
      }
      out.data<float>()[token * channels + c] = static_cast<float>(sum / (1 + std::exp(-sum)));
    }
  }
  return out;
}

TEST(ShortConvolution, SeesTheLastInputsOfItsSequence) {
  for (const int64_t taps : {2, 4, 13}) {
    for (const int64_t channels : testing::EdgeLengths()) {
      if (channels == 0) continue;
      const Tensor weight = testing::RandomTensor(DType::kF32, {channels, taps}, 3);
      const Tensor bias = taps == 4 ? testing::RandomTensor(DType::kF32, {channels}, 4) : Tensor();
      const Graph graph = ConvolutionGraph(weight, bias);
      const StateShape shape{2, (taps - 1) * channels, 0};
      const std::vector<std::vector<Tensor>> inputs = {
          {testing::RandomTensor(DType::kF32, {9, channels}, 1)},
          {testing::RandomTensor(DType::kF32, {14, channels}, 2)}};
      for (const Isa isa : SupportedIsas()) {
        SCOPED_TRACE(std::string(Name(isa)) + " " + std::to_string(channels));
        const auto whole = RunInSteps(graph, isa, shape, inputs, kAtOnce, 1);
        for (size_t i = 0; i < whole.size(); ++i) {
          ExpectNearRows(whole[i], ConvolveInF64(inputs[i][0], weight, bias));
        }
        EXPECT_EQ(RunInSteps(graph, isa, shape, inputs, kInParts, 3), whole);
      }
    }
  }
}

TEST(StateScan, RefusesWhatDoesNotFit) {
  const ScanCase c;
  const std::vector<Tensor> inputs = {testing::RandomTensor(DType::kF32, {3, c.width()}, 1),
                                      testing::RandomTensor(DType::kF32, {3, c.heads}, 2)};
  const auto refuses = [&](const SequenceBatch* batch, const std::string& why) {
    Session session(RuntimeGraph::Build(c.Build()));
    RunOptions run;
    run.state = batch;
    testing::ExpectThrows([&] { session.Forward(inputs, run); }, ErrorCode::kInvalidArgument, why);
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
  testing::ExpectThrows([&] { RuntimeGraph::Build(uneven); }, ErrorCode::kInvalidModel,
                        "cannot share 3 groups");
}

}  // namespace
}  // namespace oort
