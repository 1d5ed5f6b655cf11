// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "test/kit/every_float.h"

namespace oort::testing {
namespace {

struct Spec {
  std::string type = "nn.LSTM";
  int64_t input = 3, hidden = 5, layers = 1, projection = 0;
  bool both = false, bias = true, batch_first = false, relu = false;
  bool lstm() const { return type == "nn.LSTM"; }
  int64_t gates() const { return lstm() ? 4 : type == "nn.GRU" ? 3 : 1; }
  int64_t directions() const { return both ? 2 : 1; }
  int64_t state() const { return projection > 0 ? projection : hidden; }
};

using Weights = std::map<std::string, Tensor>;

Weights MakeWeights(const Spec& spec) {
  Weights weights;
  uint64_t seed = 10;
  const auto add = [&](const std::string& name, Shape shape) {
    weights[name] = RandomTensor(DType::kF32, shape, ++seed, -0.6, 0.6);
  };
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    for (const char* direction : {"", "_reverse"}) {
      if (*direction != 0 && !spec.both) continue;
      const std::string suffix = "_l" + std::to_string(layer) + direction;
      const int64_t gates = spec.gates() * spec.hidden;
      add("weight_ih" + suffix,
          {gates, layer == 0 ? spec.input : spec.state() * spec.directions()});
      add("weight_hh" + suffix, {gates, spec.state()});
      if (spec.bias) add("bias_ih" + suffix, {gates});
      if (spec.bias) add("bias_hh" + suffix, {gates});
      if (spec.projection > 0) add("weight_hr" + suffix, {spec.projection, spec.hidden});
    }
  }
  return weights;
}

using Vector = std::vector<double>;

/// W x + b; nothing is added where there is no bias.
Vector Map(const Weights& weights, const std::string& weight, const std::string& bias,
           const Vector& x) {
  const Tensor& w = weights.at(weight);
  Vector y(static_cast<size_t>(w.shape()[0]));
  for (size_t i = 0; i < y.size(); ++i) {
    if (weights.count(bias) != 0) y[i] = Element(weights.at(bias), static_cast<int64_t>(i));
    for (size_t j = 0; j < x.size(); ++j) {
      y[i] += Element(w, static_cast<int64_t>(i * x.size() + j)) * x[j];
    }
  }
  return y;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The formulas of torch's documentation, for one step of one sequence.
void Step(const Spec& spec, const Weights& weights, const std::string& suffix, const Vector& x,
          Vector& h, Vector& c) {
  const Vector a = Map(weights, "weight_ih" + suffix, "bias_ih" + suffix, x);
  const Vector b = Map(weights, "weight_hh" + suffix, "bias_hh" + suffix, h);
  const size_t n = static_cast<size_t>(spec.hidden);
  Vector made(n);
  for (size_t i = 0; i < n; ++i) {
    const auto gate = [&](size_t g) { return a[g * n + i] + b[g * n + i]; };
    if (spec.lstm()) {
      c[i] = Sigmoid(gate(1)) * c[i] + Sigmoid(gate(0)) * std::tanh(gate(2));
      made[i] = Sigmoid(gate(3)) * std::tanh(c[i]);
    } else if (spec.type == "nn.GRU") {
      const double z = Sigmoid(gate(1));
      const double candidate = std::tanh(a[2 * n + i] + Sigmoid(gate(0)) * b[2 * n + i]);
      made[i] = (1 - z) * candidate + z * h[i];
    } else {
      made[i] = spec.relu ? std::max(0.0, gate(0)) : std::tanh(gate(0));
    }
  }
  h = spec.projection > 0 ? Map(weights, "weight_hr" + suffix, "", made) : made;
}

/// Sequence, hidden states and cell states for `x` (steps, batch, input).
std::vector<Tensor> Reference(const Spec& spec, const Weights& weights, const Tensor& x,
                              const Tensor& h0, const Tensor& c0) {
  const int64_t steps = x.dim(0), batch = x.dim(1), d = spec.directions();
  const auto row = [](const Tensor& t, int64_t i, int64_t j) {
    Vector values;
    for (int64_t k = 0; k < t.dim(2); ++k) {
      values.push_back(Element(t, (i * t.dim(1) + j) * t.dim(2) + k));
    }
    return values;
  };
  const auto put = [](Tensor& t, int64_t i, int64_t j, int64_t at, const Vector& v) {
    std::copy(v.begin(), v.end(), t.data<double>() + (i * t.dim(1) + j) * t.dim(2) + at);
  };
  Tensor in = x, h_n(DType::kF64, {spec.layers * d, batch, spec.state()});
  Tensor c_n(DType::kF64, {spec.layers * d, batch, spec.hidden});
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    Tensor out(DType::kF64, {steps, batch, spec.state() * d});
    for (int64_t direction = 0; direction < d; ++direction) {
      const int64_t cell = layer * d + direction;
      const std::string suffix = "_l" + std::to_string(layer) + (direction ? "_reverse" : "");
      for (int64_t n = 0; n < batch; ++n) {
        Vector h = h0.defined() ? row(h0, cell, n) : Vector(static_cast<size_t>(spec.state()));
        Vector c = c0.defined() ? row(c0, cell, n) : Vector(static_cast<size_t>(spec.hidden));
        for (int64_t i = 0; i < steps; ++i) {
          const int64_t t = direction ? steps - 1 - i : i;
          Step(spec, weights, suffix, row(in, t, n), h, c);
          put(out, t, n, direction * spec.state(), h);
        }
        put(h_n, cell, n, 0, h);
        put(c_n, cell, n, 0, c);
      }
    }
    in = out;
  }
  const DType dtype = x.dtype();
  if (!spec.lstm()) return {in.To(dtype), h_n.To(dtype)};
  return {in.To(dtype), h_n.To(dtype), c_n.To(dtype)};
}

OperatorCase CaseOf(const Spec& spec, const Weights& weights) {
  const auto text = [](bool value) { return value ? "True" : "False"; };
  OperatorCase test(spec.type);
  test.Param("input_size", std::to_string(spec.input))
      .Param("hidden_size", std::to_string(spec.hidden))
      .Param("num_layers", std::to_string(spec.layers))
      .Param("bias", text(spec.bias))
      .Param("batch_first", text(spec.batch_first))
      .Param("bidirectional", text(spec.both));
  if (spec.lstm()) test.Param("proj_size", std::to_string(spec.projection));
  if (spec.type == "nn.RNN") test.Param("nonlinearity", spec.relu ? "relu" : "tanh");
  for (const auto& [name, tensor] : weights) test.Attribute(name, tensor);
  return test;
}

/// (a, b, c) becomes (b, a, c).
Tensor Swapped(const Tensor& x) {
  Tensor y(DType::kF32, {x.dim(1), x.dim(0), x.dim(2)});
  for (int64_t i = 0; i < x.dim(0); ++i) {
    for (int64_t j = 0; j < x.dim(1); ++j) {
      std::copy_n(x.data<float>() + (i * x.dim(1) + j) * x.dim(2), x.dim(2),
                  y.data<float>() + (j * x.dim(0) + i) * x.dim(2));
    }
  }
  return y;
}

void Check(const Spec& spec, int64_t steps, int64_t batch, bool with_state) {
  SCOPED_TRACE(spec.type + " steps " + std::to_string(steps) + " batch " + std::to_string(batch) +
               " hidden " + std::to_string(spec.hidden));
  const Weights weights = MakeWeights(spec);
  const Tensor x = RandomTensor(DType::kF32, {steps, batch, spec.input}, 1);
  Tensor h0, c0;
  OperatorCase test = CaseOf(spec, weights);
  test.Input(spec.batch_first ? Swapped(x) : x);
  if (with_state) {
    const int64_t cells = spec.layers * spec.directions();
    h0 = RandomTensor(DType::kF32, {cells, batch, spec.state()}, 2);
    test.Input(h0);
    if (spec.lstm()) test.Input(c0 = RandomTensor(DType::kF32, {cells, batch, spec.hidden}, 3));
  }
  std::vector<Tensor> expected = Reference(spec, weights, x, h0, c0);
  if (spec.batch_first) expected[0] = Swapped(expected[0]);
  test.Outputs(static_cast<int>(expected.size())).ExpectOutputs(expected);
}

TEST(Recurrent, MatchesItsFormulas) {
  for (const char* type : {"nn.LSTM", "nn.GRU", "nn.RNN"}) {
    for (const bool with_state : {false, true}) {
      Check({.type = type}, 4, 2, with_state);
      Check({.type = type, .layers = 3, .bias = false, .batch_first = true}, 3, 2, with_state);
      Check({.type = type, .layers = 2, .both = true}, 5, 3, with_state);
      Check({.type = type, .both = true, .batch_first = true, .relu = true}, 1, 1, with_state);
    }
    for (const int64_t hidden : {1, 4, 7, 8, 17, 33}) {
      Check({.type = type, .input = hidden, .hidden = hidden, .layers = 2}, 3, 2, true);
    }
  }
}

TEST(Recurrent, ProjectsTheState) {
  for (const bool with_state : {false, true}) {
    Check({.hidden = 6, .layers = 2, .projection = 2, .both = true}, 3, 2, with_state);
    Check({.hidden = 9, .projection = 8, .bias = false, .batch_first = true}, 4, 1, with_state);
  }
}

TEST(Recurrent, TakesOneStateForBoth) {
  const Spec spec;
  const Weights weights = MakeWeights(spec);
  const Tensor x = RandomTensor(DType::kF32, {3, 2, 3}, 1);
  const Tensor state = RandomTensor(DType::kF32, {1, 2, 5}, 2);
  CaseOf(spec, weights)
      .Input(x)
      .Input(state)
      .Outputs(3)
      .ExpectOutputs(Reference(spec, weights, x, state, state));
}

/// Runs the operator on `x` when these are its traced shapes; an empty one stands for none.
std::vector<Tensor> RunTraced(const Spec& spec, const Weights& weights, const Shape& traced_input,
                              const std::vector<Shape>& traced_outputs, const Tensor& x) {
  Graph graph;
  const auto add = [&](const Shape& shape) {
    const int operand = graph.AddOperand("x" + std::to_string(graph.operands.size()));
    graph.operands.back().has_shape = shape.rank() != 0;
    graph.operands.back().shape = shape;
    return operand;
  };
  Operator op{.type = spec.type, .name = "tested"};
  op.inputs = {add(traced_input)};
  for (const Shape& shape : traced_outputs) op.outputs.push_back(add(shape));
  op.params = {{"input_size", Parameter(std::to_string(spec.input))},
               {"hidden_size", Parameter(std::to_string(spec.hidden))},
               {"num_layers", Parameter(std::to_string(spec.layers))},
               {"bidirectional", Parameter(spec.both ? "True" : "False")},
               {"batch_first", Parameter(spec.batch_first ? "True" : "False")}};
  if (spec.lstm()) op.params["proj_size"] = Parameter(std::to_string(spec.projection));
  op.attributes = weights;
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = op.inputs});
  graph.AddOperator(op);
  graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = op.outputs});
  return Session(RuntimeGraph::Build(std::move(graph))).Forward({x});
}

TEST(Recurrent, TakesOneSequenceWithoutABatch) {
  const Spec spec{.layers = 2, .both = true, .batch_first = true};
  const Weights weights = MakeWeights(spec);
  const Tensor x = RandomTensor(DType::kF32, {4, 1, 3}, 1);
  std::vector<Tensor> expected = Reference(spec, weights, x, {}, {});
  for (Tensor& tensor : expected) tensor = tensor.Reshaped({tensor.dim(0), tensor.dim(2)});
  // A trace lists the states first then.
  const std::vector<Tensor> got =
      RunTraced(spec, weights, {4, 3}, {{4, 5}, {4, 5}, {4, 10}}, x.Reshaped({4, 3}));
  ASSERT_EQ(got.size(), 3u);
  ExpectNear(got[0], expected[1]);
  ExpectNear(got[1], expected[2]);
  ExpectNear(got[2], expected[0]);
}

/// `expected` are indices into (sequence, hidden states, cell states). The input is of another
/// size than the traced one.
void CheckRoles(const Spec& spec, const Shape& traced_input,
                const std::vector<Shape>& traced_outputs, const std::vector<size_t>& expected) {
  const Weights weights = MakeWeights(spec);
  const Tensor x = RandomTensor(DType::kF32, {3, 4, spec.input}, 1);
  std::vector<Tensor> all = Reference(spec, weights, x, {}, {});
  if (spec.batch_first) all[0] = Swapped(all[0]);
  const std::vector<Tensor> got =
      RunTraced(spec, weights, traced_input, traced_outputs, spec.batch_first ? Swapped(x) : x);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ExpectNear(got[i], all[expected[i]]);
}

TEST(Recurrent, TellsOutputsByTheirTracedShapes) {
  const Spec gru{.type = "nn.GRU"}, first{.type = "nn.GRU", .batch_first = true};
  CheckRoles(gru, {7, 2, 3}, {{7, 2, 5}}, {0});
  CheckRoles(gru, {7, 2, 3}, {{1, 2, 5}}, {1});
  CheckRoles(gru, {7, 2, 3}, {{1, 2, 5}, {7, 2, 5}}, {1, 0});
  // One sequence of a batch of one has the first extent of the states.
  CheckRoles(first, {1, 7, 3}, {{1, 7, 5}}, {0});
  CheckRoles(first, {1, 7, 3}, {{1, 1, 5}}, {1});
  CheckRoles(gru, {-1, -1, 3}, {{1, -1, 5}}, {1});
  CheckRoles(gru, {-1, -1, 3}, {{-1, -1, 5}}, {0});
  CheckRoles(gru, {}, {Shape{}, Shape{}}, {0, 1});
  CheckRoles({}, {7, 2, 3}, {{7, 2, 5}, {1, 2, 5}}, {0, 1});
  CheckRoles({}, {7, 2, 3}, {{1, 2, 5}, {1, 2, 5}}, {1, 2});
  CheckRoles({}, {7, 2, 3}, {{1, 2, 5}, {7, 2, 5}, {1, 2, 5}}, {1, 0, 2});
  const Spec projected{.projection = 2};
  CheckRoles(projected, {7, 2, 3}, {{1, 2, 5}}, {2});
  CheckRoles(projected, {7, 2, 3}, {{1, 2, 5}, {1, 2, 2}}, {2, 1});
}

TEST(Recurrent, TakesNoSequences) {
  const Spec spec{.type = "nn.GRU"};
  CaseOf(spec, MakeWeights(spec))
      .Input(RandomTensor(DType::kF32, {3, 0, 3}))
      .Outputs(2)
      .ExpectOutputs({Tensor(DType::kF32, {3, 0, 5}), Tensor(DType::kF32, {1, 0, 5})});
}

TEST(Recurrent, ConvertsHalfWeights) {
  const Spec spec{.type = "nn.RNN"};
  Weights weights = MakeWeights(spec);
  for (auto& [name, tensor] : weights) tensor = tensor.To(DType::kBF16);
  OperatorCase half = CaseOf(spec, weights);
  for (auto& [name, tensor] : weights) tensor = tensor.To(DType::kF32);
  const Tensor x = RandomTensor(DType::kF32, {3, 2, 3}, 1);
  half.Input(x).Outputs(2).ExpectOutputs(Reference(spec, weights, x, {}, {}));
}

TEST(Recurrent, TakesEveryFloat) {
  for (const Spec& spec : {Spec{.layers = 2, .projection = 3, .both = true},
                           Spec{.type = "nn.GRU", .layers = 2, .both = true},
                           Spec{.type = "nn.RNN"}, Spec{.type = "nn.RNN", .relu = true}}) {
    SCOPED_TRACE(spec.type);
    const Tensor x = RandomTensor(DType::kF32, {4, 2, 3}, 1);
    const int64_t cells = spec.layers * spec.directions();
    const Tensor h0 = RandomTensor(DType::kF32, {cells, 2, spec.state()}, 2);
    const Tensor c0 = RandomTensor(DType::kF32, {cells, 2, spec.hidden}, 3);
    const auto converted = [&](const Convert& convert) {
      Weights weights = MakeWeights(spec);
      for (auto& [name, tensor] : weights) tensor = convert(tensor);
      return weights;
    };
    ExpectEveryFloat(
        [&](const Convert& convert) {
          OperatorCase test = CaseOf(spec, converted(convert));
          test.Input(convert(x)).Input(convert(h0)).Outputs(spec.lstm() ? 3 : 2);
          if (spec.lstm()) test.Input(convert(c0));
          return test;
        },
        [&](const Convert& convert) {
          return Reference(spec, converted(convert), convert(x), convert(h0), convert(c0));
        });
  }
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {4, 2, 3});
  const auto gru = [] {
    const Spec spec{.type = "nn.GRU"};
    return CaseOf(spec, MakeWeights(spec)).Outputs(2);
  };
  gru()
      .Input(RandomTensor(DType::kF32, {4, 2, 6}))
      .ExpectError(ErrorCode::kInvalidArgument, "last axis is 3, got (4,2,6)");
  gru()
      .Input(RandomTensor(DType::kF32, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank 2 or 3");
  gru()
      .Input(RandomTensor(DType::kF32, {0, 2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "at least one step");
  gru()
      .Input(x)
      .Input(RandomTensor(DType::kF32, {1, 3, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "state of shape (1,2,5), got (1,3,5)");
  gru()
      .Input(RandomTensor(DType::kF32, {4, 3}))
      .Input(RandomTensor(DType::kF32, {1, 1, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "state of shape (1,5), got (1,1,5)");
  gru().Input(RandomTensor(DType::kI64, {4, 2, 3})).ExpectError(ErrorCode::kInvalidArgument, "i64");
  gru().Param("num_layers", "0").Input(x).ExpectError(ErrorCode::kInvalidModel, "at least 1");
  gru()
      .Param("num_layers", "2147483647")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "'@weight_ih_l1' is missing");
  gru()
      .Param("hidden_size", "2147483647")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "'@weight_ih_l0' of shape (6442450941,3)");
  gru().Param("bias", "False").Input(x).ExpectError(ErrorCode::kUnsupported, "4 attributes");
  gru()
      .Param("nonlinearity", "relu")
      .Input(x)
      .ExpectError(ErrorCode::kUnsupported, "unknown parameter nonlinearity=relu");
  gru()
      .Attribute("bias_hh_l0", RandomTensor(DType::kI64, {15}))
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "'@bias_hh_l0' of shape (15) and a float dtype");
  gru().Outputs(3).Input(x).ExpectError(ErrorCode::kInvalidModel, "3 outputs");
  const Spec rnn{.type = "nn.RNN"};
  CaseOf(rnn, MakeWeights(rnn))
      .Param("nonlinearity", "sin")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "one of tanh, relu");
  const Spec lstm;
  CaseOf(lstm, MakeWeights(lstm))
      .Param("proj_size", "5")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "proj_size below hidden_size=5, got 5");
}

}  // namespace
}  // namespace oort::testing
