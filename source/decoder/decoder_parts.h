// SPDX-License-Identifier: MIT
// What all decoders are written with: operators whose weights are a checkpoint's, by their names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "decoder/graph_writer.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {

class DecoderParts {
 public:
  explicit DecoderParts(const Checkpoint& checkpoint)
      : checkpoint_(checkpoint), config_(checkpoint.config()) {}

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const DecoderConfig& config() const { return config_; }
  GraphWriter& graph() { return graph_; }

  /// As expressions write it.
  static std::string Number(float number) { return Value(static_cast<double>(number)).ToString(); }

  Written Table(const std::string& name) {
    const StoredMatrix matrix = MatrixOf(name);
    Written table{"oort.QuantizedEmbedding", name};
    return table.AttachWeight(matrix)
        .Set("num_embeddings", Value(matrix.rows))
        .Set("embedding_dim", Value(matrix.columns));
  }

  /// A head that is the embeddings gets the very same memory, so that it is packed once.
  StoredMatrix MatrixOf(const std::string& name) {
    if (name != "model.embed_tokens") return checkpoint_.Matrix(name + ".weight");
    if (embeddings_.rows == 0) embeddings_ = checkpoint_.Matrix(name + ".weight");
    return embeddings_;
  }

  /// Products of one input with the weights of these names.
  Written LinearOf(const std::string& name, const std::vector<std::string>& parts) {
    Written linear{"oort.QuantizedLinear", name};
    Value::List rows;
    for (size_t i = 0; i < parts.size(); ++i) {
      const StoredMatrix matrix = MatrixOf(parts[i]);
      const std::string suffix = i == 0 ? "" : "_" + std::to_string(i);
      linear.AttachWeight(matrix, suffix);
      if (checkpoint_.Has(parts[i] + ".bias")) {
        linear.Attach("bias" + suffix, checkpoint_.Vector(parts[i] + ".bias"));
      }
      linear.Set("in_features", Value(matrix.columns));
      rows.emplace_back(matrix.rows);
    }
    linear.Set("out_features", Value(rows));
    return linear;
  }

  std::vector<int> Products(const std::string& name, const std::vector<std::string>& parts,
                            int in) {
    return graph_.Add(LinearOf(name, parts), {in}, static_cast<int>(parts.size()));
  }

  int Norm(const std::string& name, int x) { return Norm(name, x, config_.norm_epsilon); }
  int Norm(const std::string& name, int x, float epsilon) {
    return graph_.AddOne(NormOf(name, epsilon), {x});
  }
  Written NormOf(const std::string& name, float epsilon) {
    const Tensor weight = checkpoint_.Vector(name + ".weight");
    const bool rms = config_.norm == DecoderConfig::Norm::kRms;
    Written norm{rms ? "nn.RMSNorm" : "nn.LayerNorm", name};
    norm.Attach("weight", weight)
        .Set("normalized_shape", Value(Value::List{Value(weight.elements())}))
        .Set("eps", Value(static_cast<double>(epsilon)))
        .Set("elementwise_affine", Value(true));
    if (config_.norm == DecoderConfig::Norm::kLayer)
      norm.Attach("bias", checkpoint_.Vector(name + ".bias"));
    return norm;
  }

  /// A norm over each of `parts` of (tokens, parts * width), without a weight.
  int PlainNorms(const std::string& name, int x, int64_t parts, int64_t width) {
    const int split = Reshape(name + ".split", x, {-1, parts, width});
    Written norm{"nn.RMSNorm", name};
    norm.Set("normalized_shape", Value(Value::List{Value(width)}))
        .Set("eps", Value(static_cast<double>(config_.norm_epsilon)))
        .Set("elementwise_affine", Value(false));
    const int normed = graph_.AddOne(std::move(norm), {split});
    return Reshape(name + ".join", normed, {-1, parts * width});
  }

  /// Over the last axis, which stays as one of 1.
  int Mean(const std::string& name, int x) {
    Written mean{"torch.mean", name};
    mean.Set("dim", Value(Value::List{Value(int64_t{-1})})).Set("keepdim", Value(true));
    return graph_.AddOne(std::move(mean), {x});
  }

  int Reshape(const std::string& name, int x, const std::vector<int64_t>& shape) {
    Value::List dims;
    for (int64_t dim : shape) dims.emplace_back(dim);
    Written reshape{"Tensor.reshape", name};
    reshape.Set("shape", Value(dims));
    return graph_.AddOne(std::move(reshape), {x});
  }

  int Constant(const std::string& name, const Tensor& data) {
    Written constant{"pnnx.Attribute", name};
    constant.Attach("data", data);
    return graph_.AddOne(std::move(constant), {});
  }

  int Expression(const std::string& name, const std::string& text, const std::vector<int>& inputs) {
    Written expression{"pnnx.Expression", name + ".expression"};
    expression.params["expr"] = Parameter(text);
    return graph_.AddOne(std::move(expression), inputs);
  }

 protected:
  const Checkpoint& checkpoint_;
  const DecoderConfig& config_;
  GraphWriter graph_;

 private:
  StoredMatrix embeddings_;
};

}  // namespace oort
