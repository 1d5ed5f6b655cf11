// SPDX-License-Identifier: MIT
// What graphs of whole stacks have in common: their weights come from a table, by the names of the
// file, and every tensor of that must find its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decoder/graph_writer.h"
#include "decoder/used_tensors.h"

namespace oort {

class TableWriter {
 protected:
  explicit TableWriter(UsedTensors& used) : used_(used) {}

  static std::string Joined(std::string_view a, std::string_view b) {
    return std::string(a) + std::string(b);
  }
  int Input(DType dtype, const Shape& shape) {
    return graph_.AddInput("pnnx_input_" + std::to_string(inputs_++), dtype, shape);
  }
  Graph Finish(const std::vector<int>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph_.Add({"pnnx.Output", "pnnx_output_" + std::to_string(i)}, {outputs[i]}, 0);
    }
    return graph_.Take();
  }

  bool Has(const std::string& name) const { return used_.Has(name); }
  StoredMatrix Matrix(const std::string& name, int64_t rows, int64_t columns) {
    return used_.Matrix(name, rows, columns);
  }
  Tensor Vector(const std::string& name, int64_t size) { return used_.Vector(name, size); }

  Written LinearOf(const std::vector<std::string>& parts, int64_t rows, int64_t columns) {
    Written linear{"oort.QuantizedLinear", parts[0]};
    Value::List outputs;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string suffix = i == 0 ? "" : "_" + std::to_string(i);
      linear.AttachWeight(Matrix(parts[i], rows, columns), suffix);
      const std::string bias = parts[i] + ".bias";
      if (Has(bias)) linear.Attach("bias" + suffix, Vector(bias, rows));
      outputs.emplace_back(rows);
    }
    linear.Set("in_features", Value(columns)).Set("out_features", Value(outputs));
    return linear;
  }
  /// inputs: x, and perhaps what is added.
  int Linear(const std::string& name, const std::vector<int>& inputs, int64_t rows,
             int64_t columns) {
    return graph_.AddOne(LinearOf({name}, rows, columns), inputs);
  }

  int Norm(const std::string& name, int x, int64_t size, float epsilon, bool rms = false) {
    Written norm{rms ? "nn.RMSNorm" : "nn.LayerNorm", name};
    norm.Attach("weight", Vector(name + ".weight", size))
        .Set("normalized_shape", Value(Value::List{Value(size)}))
        .Set("eps", Value(static_cast<double>(epsilon)))
        .Set("elementwise_affine", Value(true));
    if (!rms) norm.Attach("bias", Vector(name + ".bias", size));
    return graph_.AddOne(std::move(norm), {x});
  }

  /// (tokens, heads * head_dim) as (1, heads, tokens, head_dim).
  int SplitHeads(const std::string& name, int x, int64_t heads, int64_t head_dim) {
    return Permute(name + ".heads", Reshape(name + ".split", x, {1, -1, heads, head_dim}),
                   {0, 2, 1, 3});
  }
  /// Attention of all heads, as (tokens, heads * head_dim); `mask` below 0: there is none.
  int Attend(const std::string& name, std::vector<int> inputs, int mask, float scale,
             int64_t width) {
    Written attend{"F.scaled_dot_product_attention", name + "attention"};
    attend.Set("scale", Value(static_cast<double>(scale)));
    if (mask >= 0) inputs.push_back(mask);
    const int attended = graph_.AddOne(std::move(attend), inputs);
    return Reshape(name + "join", Permute(name + "tokens", attended, {0, 2, 1, 3}), {-1, width});
  }

  int Reshape(const std::string& name, int x, const std::vector<int64_t>& shape) {
    Written reshape{"Tensor.reshape", name};
    reshape.Set("shape", Value::Ints(shape));
    return graph_.AddOne(std::move(reshape), {x});
  }
  int Permute(const std::string& name, int x, const std::vector<int64_t>& order) {
    Written permute{"Tensor.permute", name};
    permute.Set("dims", Value::Ints(order));
    return graph_.AddOne(std::move(permute), {x});
  }
  int Expression(const std::string& name, const std::string& text, const std::vector<int>& inputs) {
    Written expression{"pnnx.Expression", name + ".expression"};
    expression.params["expr"] = Parameter(text);
    return graph_.AddOne(std::move(expression), inputs);
  }

  UsedTensors& used_;
  GraphWriter graph_;
  int inputs_ = 0;
};

}  // namespace oort
