// SPDX-License-Identifier: MIT
// One oort.QuantizedLinear as a graph, for tests on a GPU.
#pragma once

#include <string>
#include <vector>

#include "decoder/graph_writer.h"
#include "oort/testing.h"
#include "weights/quantize_weights.h"

namespace oort {

struct QuantizedCase {
  WeightFormat format = WeightFormat::kBf16;
  int64_t group = 32;
  int64_t columns = 576;
  std::vector<int64_t> part_rows = {48};
  bool gated = false, norm = false, bias = false, addend = false;
  DType scale = DType::kF16;
  float unit = 1;         ///< of the inputs
  float weight_unit = 1;  ///< of the weights
  std::string activations = "floats";

  StoredMatrix Weight(int64_t rows, uint64_t seed) const {
    const Tensor values =
        testing::RandomTensor(DType::kF32, {rows, columns}, seed, -weight_unit, weight_unit);
    StoredMatrix stored = AllocateStored({format, group, scale}, rows, columns);
    QuantizeRows(values.data<float>(), 0, rows, stored);
    return stored;
  }

  StoredMatrix Part(size_t part) const { return Weight(part_rows[part], 11 + part); }
  Tensor Bias(size_t part) const {
    return testing::RandomTensor(DType::kF32, {part_rows[part]}, 21 + part);
  }
  Tensor Gain() const { return testing::RandomTensor(DType::kF32, {columns}, 31, 0.5, 2); }

  Graph Build() const {
    GraphWriter writer;
    std::vector<int> inputs = {
        writer.AddInput("pnnx_input_0", DType::kF32, {Shape::kUnknown, columns})};
    if (addend) {
      inputs.push_back(
          writer.AddInput("pnnx_input_1", DType::kF32, {Shape::kUnknown, part_rows[0]}));
    }
    Written linear{"oort.QuantizedLinear", "tested"};
    Value::List rows;
    for (size_t i = 0; i < part_rows.size(); ++i) {
      const std::string suffix = i == 0 ? "" : "_" + std::to_string(i);
      linear.AttachWeight(Part(i), suffix);
      if (bias) linear.Attach("bias" + suffix, Bias(i));
      rows.emplace_back(part_rows[i]);
    }
    linear.Set("in_features", Value(columns)).Set("out_features", Value(rows));
    linear.Set("gated", Value(gated));
    linear.Set("activations", Value(activations));
    if (gated) linear.Set("activation", Value(std::string("silu")));
    if (norm) linear.Attach("norm", Gain());
    const int results = gated ? 1 : static_cast<int>(part_rows.size());
    const std::vector<int> outputs = writer.Add(std::move(linear), inputs, results);
    for (int i = 0; i < results; ++i) {
      writer.Add({"pnnx.Output", "pnnx_output_" + std::to_string(i)},
                 {outputs[static_cast<size_t>(i)]}, 0);
    }
    return writer.Take();
  }

  std::vector<Tensor> Inputs(int64_t rows) const {
    std::vector<Tensor> inputs = {testing::RandomTensor(DType::kF32, {rows, columns}, 41, -3, 3)};
    for (int64_t i = 0; i < rows * columns; ++i) inputs[0].data<float>()[i] *= unit;
    if (addend) inputs.push_back(testing::RandomTensor(DType::kF32, {rows, part_rows[0]}, 42));
    return inputs;
  }
};

}  // namespace oort
