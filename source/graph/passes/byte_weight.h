// SPDX-License-Identifier: MIT
// Products whose weights the file holds as bytes behind an oort.Dequantize.
#pragma once

#include <algorithm>
#include <optional>

#include "graph/passes/byte_quantizer.h"
#include "graph/passes/passes.h"

namespace oort {

/// The operands that an F.linear or F.conv2d reads; -1 where it has none. All are -1 where its
/// inputs are not those that pnnx writes.
struct ProductInputs {
  int x = -1, weight = -1, bias = -1;
};

inline ProductInputs ProductInputsOf(const Operator& op, const PassContext& context) {
  const OperatorSchema* schema = context.Schema(op.type);
  if (schema == nullptr || op.outputs.size() != 1) return {};
  std::vector<Problem> problems;
  const BoundArgs bound = BindArguments(*schema, op, problems);
  if (!problems.empty()) return {};
  const auto input = [&](const char* name) {
    const int at = schema->Find(name);
    const int from = at < 0 ? -1 : bound.args[static_cast<size_t>(at)].input;
    return from < 0 ? -1 : op.inputs[static_cast<size_t>(from)];
  };
  return {input("input"), input("weight"), input("bias")};
}

struct ByteWeight {
  Tensor integers;  ///< i8
  Tensor scales;    ///< f32, one for each slice of axis 0
};

/// Weights of i8 whose zero points are 0, with a scale for each channel of axis 0 or one for all;
/// nothing for others, and for those whose sums would not fit into 32 bits.
inline std::optional<ByteWeight> ReadByteWeight(Rewriter& rewriter, int operand, int rank) {
  const Operator* dequantize = rewriter.ProducerOf(operand, "oort.Dequantize");
  if (dequantize == nullptr || dequantize->inputs.size() != 1) return {};
  const Tensor* weight = rewriter.ConstantOf(dequantize->inputs[0]);
  if (weight == nullptr || weight->dtype() != DType::kI8 || weight->rank() != rank) return {};
  constexpr int64_t kMostTerms = 65793;  // whose sums fit into 32 bits
  if (weight->elements() == 0 || weight->shape().Product(1, rank) > kMostTerms) return {};
  ByteWeight result{*weight, {}};
  if (const auto one = DequantizeOf(*dequantize)) {
    if (one->zero_point != 0) return {};
    result.scales = Tensor(DType::kF32, {weight->dim(0)});
    std::fill_n(result.scales.data<float>(), weight->dim(0), static_cast<float>(one->scale));
    return result;
  }
  const Value axis = ParameterValue(*dequantize, "axis");
  const Tensor* scales = FindAttribute(*dequantize, "scales");
  if (!axis.IsInt() || axis.AsInt() != 0 || scales == nullptr || !IsFloatOrAbsent(scales) ||
      scales->shape() != Shape{weight->dim(0)}) {
    return {};
  }
  const Tensor* zeros = FindAttribute(*dequantize, "zero_points");
  if (zeros != nullptr) {
    if (zeros->dtype() != DType::kI32 || !zeros->has_data()) return {};
    for (const int32_t zero : zeros->span<int32_t>()) {
      if (zero != 0) return {};
    }
  }
  result.scales = *scales;
  return result;
}

}  // namespace oort
