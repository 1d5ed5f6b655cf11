// SPDX-License-Identifier: MIT
// Recurrent operators with weights of bytes beside plain loops: to the last bit where no function
// of the gates is more than a comparison, else as near as its errors let it.
#include <gtest/gtest.h>

#include <cmath>

#include "test/layers/quantize/plain_dynamic.h"

namespace oort::testing::dynamic_recurrent {
namespace {

struct Spec {
  std::string type = "oort.DynamicLSTM";
  int64_t input = 3, hidden = 5, layers = 1, projection = 0;
  bool both = false, bias = true, batch_first = false, relu = false, symmetric = false;
  bool lstm() const { return type == "oort.DynamicLSTM"; }
  int64_t gates() const { return lstm() ? 4 : type == "oort.DynamicGRU" ? 3 : 1; }
  int64_t directions() const { return both ? 2 : 1; }
  int64_t state() const { return projection > 0 ? projection : hidden; }
};

struct Weights {
  std::map<std::string, ByteMatrix> matrices;
  std::map<std::string, Tensor> biases;
};

Weights MakeWeights(const Spec& spec) {
  Weights weights;
  uint64_t seed = 10;
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
    weights.matrices[name] = ByteMatrix::Random(out, in, seed += 2);
  };
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    for (const char* direction : {"", "_reverse"}) {
      if (*direction != 0 && !spec.both) continue;
      const std::string suffix = "_l" + std::to_string(layer) + direction;
      const int64_t gates = spec.gates() * spec.hidden;
      matrix("weight_ih" + suffix, gates,
             layer == 0 ? spec.input : spec.state() * spec.directions());
      matrix("weight_hh" + suffix, gates, spec.state());
      if (spec.projection > 0) matrix("weight_hr" + suffix, spec.projection, spec.hidden);
      for (const char* kind : {"bias_ih", "bias_hh"}) {
        if (spec.bias) {
          weights.biases[kind + suffix] = RandomTensor(DType::kF32, {gates}, ++seed, -0.5, 0.5);
        }
      }
    }
  }
  return weights;
}

using Row = std::vector<float>;

class Reference {
 public:
  Reference(const Spec& spec, const Weights& weights) : spec_(spec), weights_(weights) {}

  /// Sequence and last states for `x` (steps, batch, input), all states beginning with zeros.
  std::vector<Tensor> Run(const Tensor& x) const {
    const int64_t steps = x.dim(0), batch = x.dim(1), d = spec_.directions();
    const Shape states{spec_.layers * d, batch, spec_.state()};
    Tensor in = x, h_n(DType::kF32, states);
    Tensor c_n(DType::kF32, {states[0], batch, spec_.hidden});
    for (int64_t layer = 0; layer < spec_.layers; ++layer) {
      Tensor out(DType::kF32, {steps, batch, spec_.state() * d});
      for (int64_t cell = layer * d; cell < (layer + 1) * d; ++cell) {
        const bool back = cell % 2 == 1 && spec_.both;
        const std::string suffix = "_l" + std::to_string(layer) + (back ? "_reverse" : "");
        for (int64_t n = 0; n < batch; ++n) {
          Row h(static_cast<size_t>(spec_.state())), c(static_cast<size_t>(spec_.hidden));
          for (int64_t i = 0; i < steps; ++i) {
            const int64_t row = (back ? steps - 1 - i : i) * batch + n;
            Step(suffix, in.data<float>() + row * in.dim(2), h, c);
            std::copy(h.begin(), h.end(),
                      out.data<float>() + row * out.dim(2) + (back ? spec_.state() : 0));
          }
          std::copy(h.begin(), h.end(), h_n.data<float>() + (cell * batch + n) * spec_.state());
          std::copy(c.begin(), c.end(), c_n.data<float>() + (cell * batch + n) * spec_.hidden);
        }
      }
      in = out;
    }
    if (!spec_.lstm()) return {in, h_n};
    return {in, h_n, c_n};
  }

 private:
  Row Map(const std::string& kind, const std::string& suffix, const float* x) const {
    const ByteMatrix& matrix = weights_.matrices.at("weight_" + kind + suffix);
    const auto bias = weights_.biases.find("bias_" + kind + suffix);
    return PlainDynamicProduct(x, matrix.weight, matrix.scales,
                               bias == weights_.biases.end() ? Tensor() : bias->second,
                               spec_.symmetric);
  }

  static float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

  void Step(const std::string& suffix, const float* x, Row& h, Row& c) const {
    const Row a = Map("ih", suffix, x), b = Map("hh", suffix, h.data());
    const auto n = static_cast<size_t>(spec_.hidden);
    Row made(n);
    for (size_t i = 0; i < n; ++i) {
      const auto gate = [&](size_t g) { return a[g * n + i] + b[g * n + i]; };
      if (spec_.lstm()) {
        c[i] = Sigmoid(gate(1)) * c[i] + Sigmoid(gate(0)) * std::tanh(gate(2));
        made[i] = Sigmoid(gate(3)) * std::tanh(c[i]);
      } else if (spec_.gates() == 3) {
        const float candidate = std::tanh(a[2 * n + i] + Sigmoid(gate(0)) * b[2 * n + i]);
        made[i] = candidate + Sigmoid(gate(1)) * (h[i] - candidate);
      } else {
        made[i] = spec_.relu ? std::max(0.0f, gate(0)) : std::tanh(gate(0));
      }
    }
    h = spec_.projection > 0 ? Map("hr", suffix, made.data()) : made;
  }

  const Spec& spec_;
  const Weights& weights_;
};

OperatorCase CaseOf(const Spec& spec, const Weights& weights) {
  const auto text = [](bool value) { return value ? "True" : "False"; };
  OperatorCase test(spec.type);
  test.Param("input_size", std::to_string(spec.input))
      .Param("hidden_size", std::to_string(spec.hidden))
      .Param("num_layers", std::to_string(spec.layers))
      .Param("bias", text(spec.bias))
      .Param("batch_first", text(spec.batch_first))
      .Param("bidirectional", text(spec.both))
      .Param("symmetric", text(spec.symmetric));
  if (spec.lstm()) test.Param("proj_size", std::to_string(spec.projection));
  if (spec.gates() == 1) test.Param("nonlinearity", spec.relu ? "relu" : "tanh");
  for (const auto& [name, matrix] : weights.matrices) {
    test.Attribute(name, matrix.weight).Attribute(name + "_scales", matrix.scales);
  }
  for (const auto& [name, bias] : weights.biases) test.Attribute(name, bias);
  return test;
}

/// (a, b, c) becomes (b, a, c).
Tensor Swapped(const Tensor& x) {
  Tensor y(DType::kF32, {x.dim(1), x.dim(0), x.dim(2)});
  for (int64_t i = 0; i < x.dim(0) * x.dim(1); ++i) {
    const int64_t to = i % x.dim(1) * x.dim(0) + i / x.dim(1);
    std::copy_n(x.data<float>() + i * x.dim(2), x.dim(2), y.data<float>() + to * x.dim(2));
  }
  return y;
}

void Check(const Spec& spec, int64_t steps, int64_t batch, Tolerance tolerance) {
  SCOPED_TRACE(spec.type + " input " + std::to_string(spec.input) + " hidden " +
               std::to_string(spec.hidden) + " layers " + std::to_string(spec.layers));
  const Weights weights = MakeWeights(spec);
  const Tensor x = RandomTensor(DType::kF32, {steps, batch, spec.input}, 1);
  std::vector<Tensor> want = Reference(spec, weights).Run(x);
  if (spec.batch_first) want[0] = Swapped(want[0]);
  CaseOf(spec, weights)
      .Input(spec.batch_first ? Swapped(x) : x)
      .Outputs(static_cast<int>(want.size()))
      .ExpectOutputs(want, tolerance);
}

TEST(DynamicRecurrent, HasTheBitsOfPlainLoops) {
  for (const bool symmetric : {false, true}) {
    Spec spec{.type = "oort.DynamicRNN", .relu = true, .symmetric = symmetric};
    Check(spec, 1, 1, {0, 0});
    spec.input = 19;
    spec.hidden = 37;
    Check(spec, 6, 3, {0, 0});
    spec.layers = 3;
    spec.both = true;
    Check(spec, 5, 2, {0, 0});
    spec.batch_first = true;
    spec.bias = false;
    Check(spec, 4, 5, {0, 0});
  }
}

/// A gate that differs in its last bit can move a byte of the state by one step.
TEST(DynamicRecurrent, MatchesItsFormulas) {
  constexpr Tolerance kSteps{0.02, 0.02};
  for (const char* type : {"oort.DynamicLSTM", "oort.DynamicGRU", "oort.DynamicRNN"}) {
    Check({.type = type}, 4, 2, kSteps);
    Check({.type = type, .layers = 3, .bias = false, .batch_first = true}, 3, 2, kSteps);
    Check({.type = type, .layers = 2, .both = true}, 5, 3, kSteps);
    for (const int64_t hidden : {1, 4, 17, 64}) {
      Check({.type = type, .input = hidden, .hidden = hidden, .symmetric = true}, 3, 2, kSteps);
    }
  }
  Check({.hidden = 6, .layers = 2, .projection = 2, .both = true}, 3, 2, kSteps);
  Check({.hidden = 9, .projection = 8, .bias = false, .batch_first = true}, 4, 3, kSteps);
}

TEST(DynamicRecurrent, TakesStates) {
  const Spec spec{.type = "oort.DynamicRNN", .relu = true};
  const Weights weights = MakeWeights(spec);
  const Tensor x = RandomTensor(DType::kF32, {4, 2, 3}, 1);
  const std::vector<Tensor> all = Reference(spec, weights).Run(x);
  // The last two steps, beginning with what the first two left.
  const Tensor h = all[0].Rows(1, 2).Clone(), rest = x.Rows(2, 4).Clone();
  CaseOf(spec, weights)
      .Input(rest)
      .Input(h)
      .Outputs(2)
      .ExpectOutputs({all[0].Rows(2, 4).Clone(), all[1]}, {0, 0});
}

TEST(DynamicRecurrent, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {4, 2, 3});
  const auto refuses = [&](const std::string& name, const Tensor& tensor, std::string_view says) {
    const Spec spec{.type = "oort.DynamicGRU"};
    CaseOf(spec, MakeWeights(spec))
        .Attribute(name, tensor)
        .Outputs(2)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidModel, says);
  };
  Tensor scales = RandomTensor(DType::kF32, {15}, 1, 0.1, 0.2);
  refuses("weight_hh_l0_scales", RandomTensor(DType::kF32, {14}, 1, 0.1, 0.2),
          "'@weight_hh_l0_scales' of shape (15)");
  for (const float bad : {NAN, INFINITY, 0.0f, -1.0f}) {
    scales.data<float>()[7] = bad;
    refuses("weight_ih_l0_scales", scales, "'@weight_ih_l0': expected a scale above 0");
  }
  refuses("weight_hh_l0", RandomTensor(DType::kF32, {15, 5}), "of shape (15,5) and i8");
  refuses("weight_hh_l0", RandomTensor(DType::kI8, {15, 4}), "of shape (15,5) and i8");
  const Spec spec{.type = "oort.DynamicGRU"};
  Weights weights = MakeWeights(spec);
  OperatorCase lacking(spec.type);
  lacking.Param("input_size", "3").Param("hidden_size", "5");
  for (const auto& [name, matrix] : weights.matrices) lacking.Attribute(name, matrix.weight);
  lacking.Outputs(2).Input(x).ExpectError(ErrorCode::kInvalidModel,
                                          "'@weight_ih_l0_scales' is missing");
}

}  // namespace
}  // namespace oort::testing::dynamic_recurrent
