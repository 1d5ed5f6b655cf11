// SPDX-License-Identifier: MIT
// Operators with weights of bytes, whose inputs become bytes row by row, beside the same in f32, by
// turns: an iteration is a run of each. Attention's two products are beside what they would take
// if keys and values were bytes already, packed and for nothing.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "oort/session.h"

namespace oort::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Attributes = std::map<std::string, Tensor>;
using Params = std::map<std::string, std::string>;

/// Operators one behind another, of which each reads what the one before it gives, and the first
/// all inputs.
class Chain {
 public:
  explicit Chain(size_t inputs) {
    for (size_t i = 0; i < inputs; ++i) {
      last_.push_back(graph_.AddOperand("x" + std::to_string(i)));
      graph_.AddOperator({.type = "pnnx.Input",
                          .name = "pnnx_input_" + std::to_string(i),
                          .outputs = {last_.back()}});
    }
  }
  Chain& Then(const std::string& type, const Params& params, Attributes attributes = {}) {
    const std::string number = std::to_string(graph_.operators.size());
    const int output = graph_.AddOperand("y" + number);
    Operator op{.type = type, .name = "op" + number, .inputs = last_, .outputs = {output}};
    for (const auto& [name, text] : params) op.params[name] = Parameter(text);
    op.attributes = std::move(attributes);
    graph_.AddOperator(std::move(op));
    last_ = {output};
    return *this;
  }
  Graph Done() {
    graph_.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = last_});
    return std::move(graph_);
  }

 private:
  Graph graph_;
  std::vector<int> last_;
};

/// The matrices as bytes with a scale for each row, biases as they are.
Attributes AsBytes(const Attributes& floats, const std::string& scales = "") {
  Attributes bytes;
  for (const auto& [name, tensor] : floats) {
    if (tensor.rank() < 2) {
      bytes[name] = tensor;
      continue;
    }
    const int64_t columns = tensor.dim(1);
    Tensor integers(DType::kI8, tensor.shape()), steps(DType::kF32, {tensor.dim(0)});
    for (int64_t row = 0; row < tensor.dim(0); ++row) {
      const float* from = tensor.data<float>() + row * columns;
      float most = 1e-6f;
      for (int64_t i = 0; i < columns; ++i) most = std::max(most, std::fabs(from[i]));
      steps.data<float>()[row] = most / 127;
      for (int64_t i = 0; i < columns; ++i) {
        integers.data<int8_t>()[row * columns + i] =
            static_cast<int8_t>(std::nearbyint(from[i] * 127 / most));
      }
    }
    bytes[name] = integers;
    bytes[scales.empty() ? name + "_scales" : scales] = steps;
  }
  return bytes;
}

struct Rivals {
  Graph floats, bytes;
  std::vector<Shape> inputs, byte_inputs;  // the second only where they differ
};

void RunRivals(benchmark::State& state, const Rivals& rivals, int threads) {
  const auto make = [&](const Graph& graph) {
    return Session(RuntimeGraph::Build(graph), {.threads = threads});
  };
  const auto filled = [](const std::vector<Shape>& shapes) {
    std::vector<Tensor> tensors;
    for (const Shape& shape : shapes) tensors.push_back(Filled(shape));
    return tensors;
  };
  Session sessions[] = {make(rivals.floats), make(rivals.bytes)};
  const std::vector<Tensor> inputs[] = {
      filled(rivals.inputs),
      filled(rivals.byte_inputs.empty() ? rivals.inputs : rivals.byte_inputs)};
  RunOptions runs[2];
  for (int i = 0; i < 2; ++i) runs[i].outputs = sessions[i].Forward(inputs[i]);
  double seconds[2] = {INFINITY, INFINITY};  // the least, which other work changes least
  for (auto _ : state) {
    for (int i = 0; i < 2; ++i) {
      const auto start = Clock::now();
      sessions[i].Forward(inputs[i], runs[i]);
      const std::chrono::duration<double> taken = Clock::now() - start;
      seconds[i] = std::min(seconds[i], taken.count());
    }
  }
  state.counters["f32_us"] = seconds[0] * 1e6;
  state.counters["bytes_us"] = seconds[1] * 1e6;
  state.counters["f32/bytes"] = seconds[0] / seconds[1];
}

void Register(const std::string& name, const std::function<Rivals()>& make) {
  ForThreads(name,
             [make](benchmark::State& state, int threads) { RunRivals(state, make(), threads); });
}

std::string Text(int64_t number) { return std::to_string(number); }

Rivals Recurrent(const char* kind, int64_t gates, int64_t size, int64_t steps, int64_t batch) {
  const Attributes floats = {{"weight_ih_l0", Filled({gates * size, size})},
                             {"weight_hh_l0", Filled({gates * size, size})},
                             {"bias_ih_l0", Filled({gates * size})},
                             {"bias_hh_l0", Filled({gates * size})}};
  const Params params = {{"input_size", Text(size)}, {"hidden_size", Text(size)}};
  const std::string type = kind;
  return {Chain(1).Then("nn." + type, params, floats).Done(),
          Chain(1).Then("oort.Dynamic" + type, params, AsBytes(floats)).Done(),
          {{steps, batch, size}},
          {}};
}

Rivals Linear(int64_t in, int64_t out, int64_t rows) {
  const Attributes weight = {{"weight", Filled({out, in})}};
  return {Chain(1).Then("nn.Linear", {{"bias", "False"}}, weight).Done(),
          Chain(1).Then("oort.DynamicLinear", {}, AsBytes(weight, "scales")).Done(),
          {{rows, in}},
          {}};
}

Rivals Multihead(int64_t embed, int64_t heads, int64_t length, int64_t batch) {
  const Attributes floats = {{"in_proj_weight", Filled({3 * embed, embed})},
                             {"in_proj_bias", Filled({3 * embed})},
                             {"out_proj.weight", Filled({embed, embed})},
                             {"out_proj.bias", Filled({embed})}};
  const Params params = {{"num_heads", Text(heads)}, {"batch_first", "True"}};
  return {Chain(1).Then("nn.MultiheadAttention", params, floats).Done(),
          Chain(1).Then("oort.DynamicMultiheadAttention", params, AsBytes(floats)).Done(),
          {{batch, length, embed}},
          {}};
}

/// One head. In bytes, its scores are rows of queries times keys that are bytes already, and its
/// result is rows of the softmax times such values.
Rivals Products(int64_t length, int64_t dim) {
  const Attributes keys = {{"weight", Filled({length, dim})}};
  const Attributes values = {{"weight", Filled({dim, length})}};
  return {Chain(3).Then("F.scaled_dot_product_attention", {}).Done(),
          Chain(1)
              .Then("oort.DynamicLinear", {}, AsBytes(keys, "scales"))
              .Then("F.softmax", {{"dim", "-1"}})
              .Then("oort.DynamicLinear", {}, AsBytes(values, "scales"))
              .Done(),
          {{1, length, dim}, {1, length, dim}, {1, length, dim}},
          {{1, length, dim}}};
}

void RegisterAll() {
  for (const auto& [kind, gates] : {std::pair{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}}) {
    for (const int64_t size : {64, 128, 256, 512, 1024}) {
      for (const int64_t batch : {1, 8}) {
        Register(
            "dynamic/" + std::string(kind) + "/hidden:" + Text(size) +
                "/steps:64/batch:" + Text(batch),
            [=, kind = kind, gates = gates] { return Recurrent(kind, gates, size, 64, batch); });
      }
    }
  }
  for (const int64_t rows : {1, 8, 128}) {
    Register("dynamic/linear/384x1536/rows:" + Text(rows), [=] { return Linear(384, 1536, rows); });
  }
  for (const int64_t embed : {128, 384, 768}) {
    for (const int64_t length : {16, 128, 512}) {
      Register("dynamic/multihead/embed:" + Text(embed) + "/length:" + Text(length),
               [=] { return Multihead(embed, embed / 32, length, 1); });
    }
  }
  for (const int64_t dim : {32, 64}) {
    for (const int64_t length : {64, 128, 512, 2048}) {
      Register("dynamic/products/dim:" + Text(dim) + "/length:" + Text(length),
               [=] { return Products(length, dim); });
    }
  }
}

}  // namespace
}  // namespace oort::bench

int main(int argc, char** argv) {
  oort::bench::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
