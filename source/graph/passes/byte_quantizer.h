// SPDX-License-Identifier: MIT
// oort.Quantize and oort.Dequantize with one scale, as passes see them.
#pragma once

#include <cmath>
#include <optional>

#include "graph/passes/rewrite.h"

namespace oort {

/// What a tensor of bytes means: (q - zero_point) * scale.
struct ByteQuantizer {
  double scale = 1;
  int64_t zero_point = 0;
  bool operator==(const ByteQuantizer&) const = default;
};

inline bool IsByte(DType dtype) { return dtype == DType::kU8 || dtype == DType::kI8; }

/// The parameters of an operator under these names; nothing where they are no such numbers, which
/// the layer will refuse.
inline std::optional<ByteQuantizer> ReadQuantizer(const Operator& op) {
  const Value scale = ParameterValue(op, "scale"), zero_point = ParameterValue(op, "zero_point");
  if (!scale.IsFloat() && !scale.IsInt()) return {};
  if (!zero_point.IsNone() && !zero_point.IsInt()) return {};
  // Scales are f32 wherever they are used.
  const float narrow = static_cast<float>(scale.AsFloat());
  if (!(narrow > 0) || !std::isfinite(narrow) || !std::isfinite(1.0f / narrow)) return {};
  return ByteQuantizer{scale.AsFloat(), zero_point.IsNone() ? 0 : zero_point.AsInt()};
}

/// The dtype that an oort.Quantize gives; kNull where that is none of bytes.
inline DType QuantizedDTypeOf(const Operator& op) {
  const DType dtype = ParseDType(ParameterText(op, "dtype"));
  return IsByte(dtype) ? dtype : DType::kNull;
}

inline std::optional<ByteQuantizer> QuantizeOf(const Operator& op) {
  if (op.type != "oort.Quantize" || op.inputs.size() != 1 || op.outputs.size() != 1) return {};
  if (QuantizedDTypeOf(op) == DType::kNull) return {};
  return ReadQuantizer(op);
}

/// Of an oort.Dequantize without an axis.
inline std::optional<ByteQuantizer> DequantizeOf(const Operator& op) {
  if (op.type != "oort.Dequantize" || op.inputs.size() != 1 || op.outputs.size() != 1) return {};
  if (op.params.count("axis") != 0 || !op.attributes.empty()) return {};
  return ReadQuantizer(op);
}

/// Whether `factors` has one number for each channel of an image: (…, C, 1, 1) for (…, C, H, W).
inline bool ScalesChannels(const Shape& image, const Shape& factors) {
  const int rank = image.rank();
  if (rank < 3 || factors.rank() != rank) return false;
  for (int axis = 0; axis < rank - 2; ++axis) {
    if (image[axis] != factors[axis]) return false;
  }
  return factors[rank - 2] == 1 && factors[rank - 1] == 1;
}

/// The product of two operands and nothing else.
inline bool IsMultiplication(const Operator& op) {
  if (op.inputs.size() != 2 || op.outputs.size() != 1) return false;
  if (op.type != "pnnx.Expression") return op.type == "torch.mul" || op.type == "Tensor.mul";
  const std::string text = ParameterText(op, "expr");
  return text == "mul(@0,@1)" || text == "mul(@1,@0)";
}

inline void SetQuantizer(Operator& op, const std::string& prefix, const ByteQuantizer& quantizer) {
  op.params[prefix + "scale"] = Parameter::FromValue(Value(quantizer.scale));
  op.params[prefix + "zero_point"] = Parameter::FromValue(Value(quantizer.zero_point));
}

}  // namespace oort
