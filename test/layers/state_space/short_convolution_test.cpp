// SPDX-License-Identifier: MIT
// oort.ShortConvolution against the same in f64, token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kit/one_operator_graph.h"
#include "layers/state_space/run_in_steps.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

Graph ConvolutionGraph(const Tensor& weight, const Tensor& bias) {
  Operator op;
  op.type = "oort.ShortConvolution";
  op.params["layer"] = Parameter("1");
  op.attributes["weight"] = weight;
  if (bias.defined()) op.attributes["bias"] = bias;
  return GraphOf(std::move(op), {"input"});
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
    for (const int64_t channels : EdgeLengths()) {
      if (channels == 0) continue;
      const Tensor weight = RandomTensor(DType::kF32, {channels, taps}, 3);
      const Tensor bias = taps == 4 ? RandomTensor(DType::kF32, {channels}, 4) : Tensor();
      const Graph graph = ConvolutionGraph(weight, bias);
      const StateShape shape{2, (taps - 1) * channels, 0};
      const std::vector<std::vector<Tensor>> inputs = {
          {RandomTensor(DType::kF32, {9, channels}, 1)},
          {RandomTensor(DType::kF32, {14, channels}, 2)}};
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

}  // namespace
}  // namespace oort::testing
