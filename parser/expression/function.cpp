// SPDX-License-Identifier: MIT
#include "parser/expression/function.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "graph/dtype_names.h"

namespace oort::expression {
namespace {

/// From the column `gpu` of the table.
constexpr bool IsOnGpu(std::string_view form) { return form != "Host"; }

constexpr std::array<FunctionInfo, kFunctionCount> kFunctions = {{
#define OORT_FUNCTION(id, name, arity, rule, scalar, vector, gpu, ...) \
  {name, arity, TypeRule::rule, IsOnGpu(#gpu), {__VA_ARGS__}},
#include "parser/expression/functions.inc"
}};

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
