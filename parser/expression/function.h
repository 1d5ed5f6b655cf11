// SPDX-License-Identifier: MIT
// The elementwise functions: those that a pnnx.Expression may name, and the activations. One row
// of a table describes each; the arithmetic itself is in layers/expression.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "oort/dtype.h"

namespace oort::expression {

enum class Function : uint8_t {
  // of one argument
  kAbs,
  kAcos,
  kAcosh,
  kAsin,
  kAsinh,
  kAtan,
  kAtanh,
  kBitwiseNot,
  kCeil,
  kCos,
  kCosh,
  kDigamma,
  kErf,
  kErfc,
  kErfcx,
  kErfinv,
  kExp,
  kExp2,
  kExpm1,
  kFloor,
  kGelu,
  kGeluTanh,
  kHardsigmoid,
  kHardswish,
  kI0,
  kI0e,
  kI1,
  kI1e,
  kImag,
  kIsfinite,
  kIsinf,
  kIsnan,
  kLgamma,
  kLog,
  kLog10,
  kLog1p,
  kLog2,
  kLogNdtr,
  kLogicalNot,
  kLogsigmoid,
  kMish,
  kNdtri,
  kNeg,
  kPositive,
  kReal,
  kReciprocal,
  kRelu,
  kRelu6,
  kRound,
  kRsqrt,
  kSelu,
  kSigmoid,
  kSign,
  kSignbit,
  kSilu,
  kSin,
  kSinc,
  kSinh,
  kSoftsign,
  kSqrt,
  kSquare,
  kTan,
  kTanh,
  kTanhshrink,
  kTrunc,
  // of two
  kAdd,
  kAnd,
  kAtan2,
  kCelu,
  kComplex,
  kCopysign,
  kDiv,
  kElu,
  kEq,
  kFill,
  kFloorDivide,
  kFmod,
  kGcd,
  kGe,
  kGt,
  kHardshrink,
  kHypot,
  kIgamma,
  kIgammac,
  kLcm,
  kLe,
  kLeakyRelu,
  kLogaddexp,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
  kLshift,
  kLt,
  kMaximum,
  kMinimum,
  kMul,
  kNe,
  kNextafter,
  kOr,
  kPow,
  kRemainder,
  kRshift,
  kSoftshrink,
  kSub,
  kTypeAs,
  kXor,
  kZeta,
  // of three
  kClamp,
  kHardtanh,
  kMaskedFill,
  kSoftplus,
  kThreshold,
  kWhere,
};
inline constexpr int kFunctionCount = static_cast<int>(Function::kWhere) + 1;

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

struct FunctionInfo {
  std::string_view name;
  int arity;
  TypeRule rule;
};

const FunctionInfo& Info(Function function);
/// By its name in an expression ("add", "maximum", "max", …).
std::optional<Function> FindFunction(std::string_view name);
/// All names, for suggestions.
std::span<const std::string_view> FunctionNames();

/// The dtype of a cast: "torch.float", "torch.int64", …; kNull if the name is none.
DType CastDType(std::string_view name);

}  // namespace oort::expression
