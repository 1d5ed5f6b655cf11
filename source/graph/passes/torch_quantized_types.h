// SPDX-License-Identifier: MIT
// Operators of networks that torch quantized, and what they do to scales.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "oort/graph.h"

namespace oort {

inline bool IsAnyOf(const Operator& op, std::initializer_list<std::string_view> types) {
  for (std::string_view type : types) {
    if (op.type == type) return true;
  }
  return false;
}

inline bool IsTorchQuantize(const Operator& op) {
  return IsAnyOf(
      op, {"torch.quantize_per_tensor", "aten::quantize_per_tensor", "nn.quantized.Quantize"});
}

inline bool IsTorchDequantize(const Operator& op) {
  return IsAnyOf(op, {"torch.dequantize", "aten::dequantize", "nn.quantized.DeQuantize"});
}

inline bool IsFakeQuantize(const Operator& op) {
  return IsAnyOf(
      op, {"aten::fake_quantize_per_tensor_affine", "aten::fake_quantize_per_channel_affine"});
}

/// Modules with weights of their own.
struct TorchModule {
  bool convolution, relu;
};
inline std::optional<TorchModule> TorchModuleOf(std::string_view type) {
  if (type == "nn.quantized.Conv2d") return TorchModule{true, false};
  if (type == "nn.intrinsic.quantized.ConvReLU2d") return TorchModule{true, true};
  if (type == "nn.quantized.Linear") return TorchModule{false, false};
  if (type == "nn.intrinsic.quantized.LinearReLU") return TorchModule{false, true};
  return {};
}

/// Functions that are given the scale of their result: as which float operator they run.
struct TorchFunction {
  std::string_view name;
  const char* type;
  std::string_view expression;  ///< of a pnnx.Expression
  bool relu;
  size_t operands;                      ///< that are quantized; 0: any number
  std::vector<std::string_view> keeps;  ///< arguments that the float operator has, too
};
inline std::optional<TorchFunction> TorchFunctionOf(std::string_view type) {
  static const std::vector<TorchFunction> kFunctions = {
      {"quantized::add", "pnnx.Expression", "add(@0,@1)", false, 2, {}},
      {"quantized::add_relu", "pnnx.Expression", "add(@0,@1)", true, 2, {}},
      {"quantized::mul", "pnnx.Expression", "mul(@0,@1)", false, 2, {}},
      {"quantized::mul_relu", "pnnx.Expression", "mul(@0,@1)", true, 2, {}},
      {"nn.quantized.cat", "torch.cat", "", false, 0, {"dim"}},
      {"quantized::hardswish", "F.hardswish", "", false, 1, {}},
      {"quantized::sigmoid", "F.sigmoid", "", false, 1, {}},
      {"quantized::leaky_relu", "F.leaky_relu", "", false, 1, {"negative_slope"}},
  };
  for (const TorchFunction& function : kFunctions) {
    if (function.name == type) return function;
  }
  return {};
}

inline bool IsJoinOfQuantized(const Operator& op) { return op.type == "torch.cat"; }

/// Functions whose results torch always gives the same scale; the zero point counts from the least
/// byte.
struct FixedScale {
  double scale;
  int64_t zero_point;
};
inline std::optional<FixedScale> FixedScaleOf(std::string_view type) {
  for (std::string_view sigmoid :
       {"nn.Sigmoid", "F.sigmoid", "torch.sigmoid", "nn.Hardsigmoid", "F.hardsigmoid"}) {
    if (type == sigmoid) return FixedScale{1.0 / 256, 0};
  }
  for (std::string_view tanh : {"nn.Tanh", "F.tanh", "torch.tanh"}) {
    if (type == tanh) return FixedScale{2.0 / 256, 128};
  }
  return {};
}

/// Limits that are the same for all elements.
inline bool IsLimit(const Operator& op) {
  return IsAnyOf(op, {"nn.ReLU", "F.relu", "torch.relu", "nn.ReLU6", "F.relu6", "nn.Hardtanh",
                      "F.hardtanh", "torch.clamp"});
}

/// Operators whose result torch gives the scale of their only quantized input.
inline bool KeepsTorchScale(const Operator& op) {
  return IsLimit(op) ||
         IsAnyOf(op, {"nn.MaxPool2d",      "F.max_pool2d",         "nn.AvgPool2d",
                      "F.avg_pool2d",      "nn.AdaptiveAvgPool2d", "F.adaptive_avg_pool2d",
                      "torch.mean",        "F.interpolate",        "F.upsample",
                      "nn.Upsample",       "nn.LeakyReLU",         "F.leaky_relu",
                      "nn.Hardswish",      "F.hardswish",          "nn.Dropout",
                      "F.dropout",         "nn.Identity",          "torch.clone",
                      "Tensor.clone",      "Tensor.contiguous",    "torch.flatten",
                      "nn.Flatten",        "Tensor.flatten",       "Tensor.view",
                      "Tensor.reshape",    "torch.reshape",        "torch.permute",
                      "Tensor.permute",    "torch.transpose",      "torch.squeeze",
                      "torch.unsqueeze",   "Tensor.slice",         "Tensor.select",
                      "torch.select",      "nn.PixelShuffle",      "F.pixel_shuffle",
                      "nn.ChannelShuffle", "F.channel_shuffle",    "nn.ZeroPad2d",
                      "nn.ConstantPad2d"});
}

}  // namespace oort
