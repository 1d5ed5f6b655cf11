// SPDX-License-Identifier: MIT
#include "parser/expression/function.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "graph/dtype_names.h"

namespace oort::expression {
namespace {

using R = TypeRule;

// In the order of the enum.
constexpr std::array<FunctionInfo, kFunctionCount> kFunctions = {{
    {"abs", 1, R::kAbs},
    {"acos", 1, R::kFloat},
    {"acosh", 1, R::kFloat},
    {"asin", 1, R::kFloat},
    {"asinh", 1, R::kFloat},
    {"atan", 1, R::kFloat},
    {"atanh", 1, R::kFloat},
    {"bitwise_not", 1, R::kPromote},
    {"ceil", 1, R::kPromote},
    {"cos", 1, R::kFloat},
    {"cosh", 1, R::kFloat},
    {"digamma", 1, R::kFloat},
    {"erf", 1, R::kFloat},
    {"erfc", 1, R::kFloat},
    {"erfcx", 1, R::kFloat},
    {"erfinv", 1, R::kFloat},
    {"exp", 1, R::kFloat},
    {"exp2", 1, R::kFloat},
    {"expm1", 1, R::kFloat},
    {"floor", 1, R::kPromote},
    {"gelu", 1, R::kFloatOnly},
    {"gelu_tanh", 1, R::kFloatOnly},
    {"hardsigmoid", 1, R::kFloatOnly},
    {"hardswish", 1, R::kFloatOnly},
    {"i0", 1, R::kFloat},
    {"i0e", 1, R::kFloat},
    {"i1", 1, R::kFloat},
    {"i1e", 1, R::kFloat},
    {"imag", 1, R::kAbs},
    {"isfinite", 1, R::kBool},
    {"isinf", 1, R::kBool},
    {"isnan", 1, R::kBool},
    {"lgamma", 1, R::kFloat},
    {"log", 1, R::kFloat},
    {"log10", 1, R::kFloat},
    {"log1p", 1, R::kFloat},
    {"log2", 1, R::kFloat},
    {"log_ndtr", 1, R::kFloat},
    {"logical_not", 1, R::kBool},
    {"logsigmoid", 1, R::kFloatOnly},
    {"mish", 1, R::kFloatOnly},
    {"ndtri", 1, R::kFloat},
    {"neg", 1, R::kPromote},
    {"positive", 1, R::kPromote},
    {"real", 1, R::kAbs},
    {"reciprocal", 1, R::kFloat},
    {"relu", 1, R::kPromote},
    {"relu6", 1, R::kPromote},
    {"round", 1, R::kPromote},
    {"rsqrt", 1, R::kFloat},
    {"selu", 1, R::kFloatOnly},
    {"sigmoid", 1, R::kFloat},
    {"sign", 1, R::kPromote},
    {"signbit", 1, R::kBool},
    {"silu", 1, R::kFloatOnly},
    {"sin", 1, R::kFloat},
    {"sinc", 1, R::kFloat},
    {"sinh", 1, R::kFloat},
    {"softsign", 1, R::kFloat},
    {"sqrt", 1, R::kFloat},
    {"square", 1, R::kPromote},
    {"tan", 1, R::kFloat},
    {"tanh", 1, R::kFloat},
    {"tanhshrink", 1, R::kFloat},
    {"trunc", 1, R::kPromote},
    {"add", 2, R::kPromote},
    {"and", 2, R::kPromote},
    {"atan2", 2, R::kFloat},
    {"celu", 2, R::kFirst},
    {"complex", 2, R::kComplex},
    {"copysign", 2, R::kFloat},
    {"div", 2, R::kFloat},
    {"elu", 2, R::kFirst},
    {"eq", 2, R::kBool},
    {"fill", 2, R::kFirst},
    {"floor_divide", 2, R::kPromote},
    {"fmod", 2, R::kPromote},
    {"gcd", 2, R::kPromote},
    {"ge", 2, R::kBool},
    {"gt", 2, R::kBool},
    {"hardshrink", 2, R::kFirst},
    {"hypot", 2, R::kFloatOnly},
    {"igamma", 2, R::kFloatOnly},
    {"igammac", 2, R::kFloatOnly},
    {"lcm", 2, R::kPromote},
    {"le", 2, R::kBool},
    {"leaky_relu", 2, R::kFirst},
    {"logaddexp", 2, R::kFloatOnly},
    {"logical_and", 2, R::kBool},
    {"logical_or", 2, R::kBool},
    {"logical_xor", 2, R::kBool},
    {"lshift", 2, R::kPromote},
    {"lt", 2, R::kBool},
    {"maximum", 2, R::kPromote},
    {"minimum", 2, R::kPromote},
    {"mul", 2, R::kPromote},
    {"ne", 2, R::kBool},
    {"nextafter", 2, R::kFloatOnly},
    {"or", 2, R::kPromote},
    {"pow", 2, R::kPromote},
    {"remainder", 2, R::kPromote},
    {"rshift", 2, R::kPromote},
    {"softshrink", 2, R::kFirst},
    {"sub", 2, R::kPromote},
    {"type_as", 2, R::kFirst},
    {"xor", 2, R::kPromote},
    {"zeta", 2, R::kFloat},
    {"clamp", 3, R::kPromote},
    {"hardtanh", 3, R::kFirst},
    {"masked_fill", 3, R::kFirst},
    {"softplus", 3, R::kFirst},
    {"threshold", 3, R::kFirst},
    {"where", 3, R::kWhere},
}};
static_assert(!kFunctions.back().name.empty());

constexpr std::array<std::pair<std::string_view, Function>, 7> kAliases = {{
    {"bitwise_and", Function::kAnd},
    {"bitwise_left_shift", Function::kLshift},
    {"bitwise_or", Function::kOr},
    {"bitwise_right_shift", Function::kRshift},
    {"bitwise_xor", Function::kXor},
    {"max", Function::kMaximum},
    {"min", Function::kMinimum},
}};

std::vector<std::string_view> MakeNames() {
  std::vector<std::string_view> names = {"int", "size", "torch.float", "torch.long", "torch.bool"};
  for (const FunctionInfo& info : kFunctions) names.push_back(info.name);
  for (const auto& [name, function] : kAliases) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

const FunctionInfo& Info(Function function) { return kFunctions[static_cast<size_t>(function)]; }

std::optional<Function> FindFunction(std::string_view name) {
  for (size_t i = 0; i < kFunctions.size(); ++i) {
    if (kFunctions[i].name == name) return static_cast<Function>(i);
  }
  for (const auto& [alias, function] : kAliases) {
    if (alias == name) return function;
  }
  return {};
}

std::span<const std::string_view> FunctionNames() {
  static const std::vector<std::string_view> names = MakeNames();
  return names;
}

DType CastDType(std::string_view name) {
  if (name.substr(0, 6) != "torch.") return DType::kNull;
  return ParseTorchDType(Value(std::string(name)));
}

}  // namespace oort::expression
