// SPDX-License-Identifier: MIT
// Products of one operand with several matrices, such as the query, key and value of attention or
// the gate of a feed-forward network and what passes it, become one product.
#include <algorithm>
#include <cstring>

#include "core/host_memory.h"
#include "cpu/activation.h"
#include "graph/passes/linear_op.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

/// The only operator that reads the result of `op`, or -1.
int OnlyReader(Rewriter& rewriter, const Operator& op) {
  const int output = op.outputs[0];
  return rewriter.HasOneUse(output) ? rewriter.operand(output).consumers[0] : -1;
}

bool HasActivation(Rewriter& rewriter, int index) {
  const auto spec = ActivationOf(rewriter.op(index));
  return spec && spec->kind != Activation::kNone;
}

/// Whether what follows the product would go into it, were it alone.
bool FusesAlone(Rewriter& rewriter, int index, std::span<const int> others) {
  const int reader = OnlyReader(rewriter, rewriter.op(index));
  if (reader < 0) return false;
  if (IsSumOp(rewriter.op(reader))) return true;
  if (!HasActivation(rewriter, reader)) return false;
  // An activation that is multiplied with another of the products becomes one formula with that.
  const int next = OnlyReader(rewriter, rewriter.op(reader));
  if (next < 0 || rewriter.op(next).type != "pnnx.Expression") return true;
  const std::vector<int>& inputs = rewriter.op(next).inputs;
  return std::none_of(others.begin(), others.end(), [&](int other) {
    return other != index &&
           std::count(inputs.begin(), inputs.end(), rewriter.op(other).outputs[0]) > 0;
  });
}

/// Products of the operand that are better off as one.
std::vector<int> ProductsOf(Rewriter& rewriter, int operand) {
  const Operand& x = rewriter.operand(operand);
  std::vector<int> all, merged;
  if (x.dtype != DType::kF32 || !x.has_shape || x.shape.rank() < 1) return {};
  for (int index : x.consumers) {
    if (IsFloatLinear(rewriter.op(index))) all.push_back(index);
  }
  for (int index : all) {
    const Tensor& weight = *FindAttribute(rewriter.op(index), "weight");
    if (weight.elements() == 0 || weight.dim(1) != x.shape[x.shape.rank() - 1]) continue;
    if (!FusesAlone(rewriter, index, all)) merged.push_back(index);
  }
  return merged;
}

/// The rows of all weights behind each other; zeros for a bias that is absent.
Tensor Joined(Rewriter& rewriter, std::span<const int> products, const char* name, Shape shape) {
  const size_t bytes = static_cast<size_t>(shape.elements()) * sizeof(float);
  Tensor joined(DType::kF32, shape, AllocatePages(bytes, PageUse::kPassing));
  std::byte* to = joined.raw();
  for (int index : products) {
    const Operator& op = rewriter.op(index);
    const Tensor* tensor = FindAttribute(op, name);
    if (tensor != nullptr) {
      std::memcpy(to, tensor->raw(), tensor->bytes());
      to += tensor->bytes();
    } else {
      const auto rows = static_cast<size_t>(FindAttribute(op, "weight")->dim(0));
      std::memset(to, 0, rows * sizeof(float));
      to += rows * sizeof(float);
    }
  }
  return joined;
}

void Merge(Rewriter& rewriter, std::span<const int> products) {
  std::vector<int64_t> rows;
  int64_t all = 0;
  bool bias = false;
  for (int index : products) {
    const Operator& op = rewriter.op(index);
    rows.push_back(FindAttribute(op, "weight")->dim(0));
    all += rows.back();
    bias = bias || FindAttribute(op, "bias") != nullptr;
  }
  const int first = products.front();
  const int64_t depth = FindAttribute(rewriter.op(first), "weight")->dim(1);
  std::map<std::string, Tensor> attributes;
  attributes["weight"] = Joined(rewriter, products, "weight", {all, depth});
  if (bias) attributes["bias"] = Joined(rewriter, products, "bias", {all});
  std::vector<int> outputs;
  for (int index : products) {
    outputs.push_back(rewriter.op(index).outputs[0]);
    if (index == first) continue;
    rewriter.graph().SetOutputs(index, {});
    rewriter.Kill(index);
  }
  rewriter.graph().SetOutputs(first, std::move(outputs));
  Operator& op = rewriter.op(first);
  op.type = "oort.MergedLinear";
  op.input_names.clear();
  op.params.clear();
  op.params["out_features"] = Parameter::FromValue(Value::Ints(rows));
  op.attributes = std::move(attributes);
}

}  // namespace

void MergeLinear(Graph& graph, const PassContext& context) {
  // Products in f16 have a layer of their own.
  if (!context.HasLayer("oort.MergedLinear") || context.narrow == DType::kF16) return;
  Rewriter rewriter(graph);
  const size_t operands = graph.operands.size();
  for (size_t i = 0; i < operands; ++i) {
    const std::vector<int> products = ProductsOf(rewriter, static_cast<int>(i));
    if (products.size() > 1) Merge(rewriter, products);
  }
  rewriter.Finish();
}

}  // namespace oort
