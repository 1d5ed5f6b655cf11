// SPDX-License-Identifier: MIT
#include "layers/expression/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "layers/expression/element_functions.h"
#include "layers/expression/kernels.h"
#include "layers/expression/promote.h"

namespace oort::expression {
namespace {

/// Numbers are computed as wide as they come: the dtype of the kernel for a kind of number.
DType WideDType(DType kind) {
  switch (kind) {
    case DType::kF32: return DType::kF64;
    case DType::kC64: return DType::kC128;
    default: return kind;
  }
}

bool IsRounding(Function function) {
  return function == Function::kCeil || function == Function::kFloor ||
         function == Function::kRound || function == Function::kTrunc;
}

bool KeepsBool(Function function) {
  switch (function) {
    case Function::kAnd:
    case Function::kOr:
    case Function::kXor:
    case Function::kBitwiseNot:
    case Function::kWhere: return true;
    default: return false;
  }
}

/// The common kind in which a function is computed.
DType ComputeKind(Function function, std::span<const DType> kinds) {
  DType common = DType::kBool;
  for (DType kind : kinds) common = PromoteTypes(common, kind);
  const TypeRule rule = Info(function).rule;
  if (common == DType::kBool && !KeepsBool(function)) common = DType::kI64;
  const bool wants_float =
      rule == TypeRule::kFloat || rule == TypeRule::kFloatOnly || rule == TypeRule::kFirst;
  return wants_float && common == DType::kI64 ? DType::kF32 : common;
}

struct Element {
  alignas(16) std::array<std::byte, 16> bytes{};
  template <typename T>
  void Set(T value) {
    std::memcpy(bytes.data(), &value, sizeof(T));
  }
  template <typename T>
  T Get() const {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
};

Element Store(const Value& number, DType dtype) {
  Element element;
  switch (dtype) {
    case DType::kBool: element.Set(Bool(number.AsBool())); break;
    case DType::kI64: element.Set(number.AsInt()); break;
    case DType::kF64: element.Set(number.AsFloat()); break;
    default: element.Set(number.AsComplex()); break;
  }
  return element;
}

Value Load(const Element& element, DType dtype) {
  switch (dtype) {
    case DType::kBool: return Value(bool(element.Get<Bool>()));
    case DType::kI64: return Value(element.Get<int64_t>());
    case DType::kF64: return Value(element.Get<double>());
    default: return Value(element.Get<std::complex<double>>());
  }
}

constexpr double kTwo63 = 9223372036854775808.0;

}  // namespace

DType NumberResult(Function function, std::span<const DType> args) {
  const DType computed = ComputeKind(function, args);
  switch (Info(function).rule) {
    case TypeRule::kBool: return DType::kBool;
    case TypeRule::kAbs: return RealDType(computed);
    case TypeRule::kComplex: return DType::kC64;
    default: return IsRounding(function) && computed == DType::kF32 ? DType::kI64 : computed;
  }
}

Value EvaluateNumbers(Function function, std::span<const Value> args) {
  std::array<DType, 3> kinds{};
  for (size_t i = 0; i < args.size(); ++i) kinds[i] = NumberDType(args[i]);
  if (function == Function::kWhere) return args[0].AsBool() ? args[1] : args[2];
  DType dtype = WideDType(ComputeKind(function, {kinds.data(), args.size()}));
  if (function == Function::kPow && dtype == DType::kI64 && args[1].AsInt() < 0) {
    dtype = DType::kF64;  // as Python: 2 ** -1 is 0.5
  }
  if (function == Function::kRealPart || function == Function::kImagPart) {
    const std::complex<double> number = args[0].AsComplex();
    return Value(function == Function::kRealPart ? number.real() : number.imag());
  }
  if (function == Function::kMakeComplex) {
    return Value(std::complex<double>(args[0].AsFloat(), args[1].AsFloat()));
  }
  const Kernel kernel = FindKernel(function, dtype, Isa::kScalar);
  if (kernel == nullptr) {
    throw Error(ErrorCode::kInvalidModel,
                "'" + std::string(Info(function).name) + "' does not take " + args[0].KindName());
  }
  std::array<Element, 3> elements;
  std::array<const void*, 3> pointers{};
  for (size_t i = 0; i < args.size(); ++i) {
    elements[i] = Store(args[i], dtype);
    pointers[i] = elements[i].bytes.data();
  }
  Element result;
  kernel(pointers.data(), result.bytes.data(), 1);
  const TypeRule rule = Info(function).rule;
  if (rule == TypeRule::kBool) return Load(result, DType::kBool);
  if (rule == TypeRule::kAbs && dtype == DType::kC128) return Load(result, DType::kF64);
  const Value value = Load(result, dtype);
  return IsRounding(function) && value.IsFloat() ? ToIntNumber(value) : value;
}

Value ToIntNumber(const Value& number) {
  if (number.IsInt() || number.IsBool()) return Value(number.AsInt());
  const double value = number.AsFloat();
  if (!(value >= -kTwo63 && value < kTwo63)) {
    throw Error(ErrorCode::kInvalidArgument, "no int is " + number.KindName());
  }
  return Value(static_cast<int64_t>(value));
}

Value CastNumber(const Value& number, DType dtype) {
  if (dtype == DType::kBool) return Value(number.AsComplex() != 0.0);
  if (IsInteger(dtype)) return ToIntNumber(number);
  if (IsFloat(dtype)) return Value(number.AsFloat());
  return Value(number.AsComplex());
}

}  // namespace oort::expression
