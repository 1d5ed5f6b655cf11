// SPDX-License-Identifier: MIT
// The elementwise functions: those that a pnnx.Expression may name, and the activations. One row
// of functions.inc describes each; the arithmetic itself is in layers/expression.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "oort/dtype.h"

namespace oort::expression {

enum class Function : uint8_t {
#define OORT_FUNCTION(name, ...) k##name,
#include "parser/expression/functions.inc"
};
inline constexpr int kFunctionCount = 0
#define OORT_FUNCTION(...) +1
#include "parser/expression/functions.inc"
    ;

/// How the dtype of the result follows from those of the arguments.
enum class TypeRule : uint8_t {
  kPromote,    ///< the common dtype
  kFloat,      ///< the common dtype; integers and bools become f32
  kFloatOnly,  ///< the common dtype, which must not be an integer or a bool
  kBool,       ///< computed in the common dtype, the result is bool
  kAbs,        ///< the common dtype; complex numbers become real
  kComplex,    ///< the complex dtype of the common one, which must be real
  kFirst,      ///< the dtype of the first argument; the others are converted to it
  kWhere,      ///< a condition, then two arguments that are promoted
};

/// Operators that are one function of their inputs and nothing else.
struct FunctionOperators {
  std::string_view types;  ///< "nn.Tanh F.tanh"; empty where there are none
  DTypeSet dtypes;         ///< of the inputs
  std::string_view doc;
  std::string_view arguments = "input other";  ///< names of the inputs
};

struct FunctionInfo {
  std::string_view name;
  int arity;
  TypeRule rule;
  bool on_gpu;  ///< its code runs there, for the dtypes that it has on the CPU
  FunctionOperators operators;
};

const FunctionInfo& Info(Function function);
/// By its name in an expression ("add", "maximum", "max", …).
std::optional<Function> FindFunction(std::string_view name);
/// All names, for suggestions.
std::span<const std::string_view> FunctionNames();

/// The dtype of a cast: "torch.float", "torch.int64", …; kNull if the name is none.
DType CastDType(std::string_view name);

}  // namespace oort::expression
