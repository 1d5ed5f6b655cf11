// SPDX-License-Identifier: MIT
#include "cpu/activation.h"

#include <array>
#include <cmath>
#include <limits>

#include "core/number_text.h"

namespace oort {
namespace {

constexpr std::array<std::string_view, 14> kActivationNames = {
    "none", "relu", "clamp",     "silu",       "hardswish", "hardsigmoid", "sigmoid",
    "tanh", "gelu", "gelu_tanh", "leaky_relu", "elu",       "mish",        "silu"};

/// A number argument of an operator: its parameter, or where it is absent a default.
struct NumberParameter {
  const char* name = nullptr;
  double fallback = 0;
};

struct KnownActivation {
  std::string_view type;
  Activation kind;
  NumberParameter a, b;
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

constexpr KnownActivation kKnownActivations[] = {
    {"nn.ReLU", Activation::kRelu, {}, {}},
    {"F.relu", Activation::kRelu, {}, {}},
    {"torch.relu", Activation::kRelu, {}, {}},
    {"nn.ReLU6", Activation::kClamp, {nullptr, 0}, {nullptr, 6}},
    {"F.relu6", Activation::kClamp, {nullptr, 0}, {nullptr, 6}},
    {"nn.Hardtanh", Activation::kClamp, {"min_val", -1}, {"max_val", 1}},
    {"F.hardtanh", Activation::kClamp, {"min_val", -1}, {"max_val", 1}},
    {"torch.clamp", Activation::kClamp, {"min", -kNoLimit}, {"max", kNoLimit}},
    {"nn.SiLU", Activation::kSilu, {}, {}},
    {"F.silu", Activation::kSilu, {}, {}},
    {"nn.Hardswish", Activation::kHardswish, {}, {}},
    {"F.hardswish", Activation::kHardswish, {}, {}},
    {"nn.Hardsigmoid", Activation::kHardsigmoid, {}, {}},
    {"F.hardsigmoid", Activation::kHardsigmoid, {}, {}},
    {"nn.Sigmoid", Activation::kSigmoid, {}, {}},
    {"F.sigmoid", Activation::kSigmoid, {}, {}},
    {"torch.sigmoid", Activation::kSigmoid, {}, {}},
    {"nn.Tanh", Activation::kTanh, {}, {}},
    {"F.tanh", Activation::kTanh, {}, {}},
    {"torch.tanh", Activation::kTanh, {}, {}},
    {"nn.GELU", Activation::kGelu, {}, {}},
    {"F.gelu", Activation::kGelu, {}, {}},
    {"nn.LeakyReLU", Activation::kLeakyRelu, {"negative_slope", 0.01}, {}},
    {"F.leaky_relu", Activation::kLeakyRelu, {"negative_slope", 0.01}, {}},
    {"nn.ELU", Activation::kElu, {"alpha", 1}, {}},
    {"F.elu", Activation::kElu, {"alpha", 1}, {}},
    {"nn.Mish", Activation::kMish, {}, {}},
    {"F.mish", Activation::kMish, {}, {}},
};

/// Nothing where the parameter is there and no number that f32 can hold.
std::optional<float> ReadNumber(const Operator& op, const NumberParameter& parameter) {
  double number = parameter.fallback;
  if (parameter.name != nullptr) {
    const auto found = op.params.find(parameter.name);
    const Value value = found == op.params.end() ? Value() : found->second.value();
    if (value.IsInt() || value.IsFloat()) {
      number = value.AsFloat();
    } else if (!value.IsNone()) {
      return {};
    }
  }
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (std::isnan(number) || (std::isfinite(number) && std::fabs(number) > kLargest)) return {};
  return static_cast<float>(number);
}

std::optional<ActivationSpec> OfGelu(const Operator& op) {
  const auto found = op.params.find("approximate");
  if (found == op.params.end() || found->second.text() == "none") {
    return ActivationSpec{Activation::kGelu};
  }
  if (found->second.text() == "tanh") return ActivationSpec{Activation::kGeluTanh};
  return {};
}

/// "silu(@0)"
std::optional<ActivationSpec> OfExpression(const Operator& op) {
  const auto found = op.params.find("expr");
  if (found == op.params.end()) return {};
  const std::string& text = found->second.text();
  constexpr std::string_view kTail = "(@0)";
  if (!text.ends_with(kTail)) return {};
  const auto kind = ActivationNamed(std::string_view(text).substr(0, text.size() - kTail.size()));
  if (!kind) return {};
  switch (*kind) {
    case Activation::kNone:
    case Activation::kClamp:
    case Activation::kLeakyRelu:
    case Activation::kElu: return {};  // they take more arguments
    default: return ActivationSpec{*kind};
  }
}

}  // namespace

std::string_view Name(Activation activation) {
  return kActivationNames[static_cast<size_t>(activation)];
}

std::optional<Activation> ActivationNamed(std::string_view name) {
  for (size_t i = 0; i < kActivationNames.size(); ++i) {
    if (kActivationNames[i] == name) return static_cast<Activation>(i);
  }
  return {};
}

std::optional<ActivationSpec> ActivationOf(const Operator& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return {};
  if (op.type == "pnnx.Expression") return OfExpression(op);
  for (const KnownActivation& known : kKnownActivations) {
    if (known.type != op.type) continue;
    if (known.kind == Activation::kGelu) return OfGelu(op);
    const auto a = ReadNumber(op, known.a), b = ReadNumber(op, known.b);
    if (!a || !b) return {};
    // An infinite limit is written as None, which is right only where it limits nothing: limits
    // that let no number through are refused.
    if (known.kind == Activation::kClamp && (*a > *b || *a == kInfinite || *b == -kInfinite)) {
      return {};
    }
    if (known.kind != Activation::kClamp && std::isinf(*a)) return {};
    return ActivationSpec{known.kind, *a, *b};
  }
  return {};
}

std::string ActivationText(const ActivationSpec& spec) {
  const auto number = [](float value) {
    return std::isinf(value) ? "None" : FormatFloat(static_cast<double>(value));
  };
  const std::string call = std::string(Name(spec.kind)) + "(@0";
  switch (spec.kind) {
    case Activation::kNone: return "";
    case Activation::kClamp: return call + "," + number(spec.a) + "," + number(spec.b) + ")";
    case Activation::kLeakyRelu:
    case Activation::kElu: return call + "," + number(spec.a) + ")";
    default: return call + ")";
  }
}

void SetActivation(Operator& op, const ActivationSpec& spec) {
  op.params["activation"] = Parameter(std::string(Name(spec.kind)));
  op.params["activation_a"] = Parameter::FromValue(Value(static_cast<double>(spec.a)));
  op.params["activation_b"] = Parameter::FromValue(Value(static_cast<double>(spec.b)));
}

}  // namespace oort
