// SPDX-License-Identifier: MIT
#include "layers/expression/call.h"

#include <algorithm>

#include "layers/expression/numbers.h"
#include "layers/expression/promote.h"

namespace oort::expression {
namespace {

DType KindOf(const Item& item) {
  return item.kind == Item::kValue ? NumberDType(item.value) : item.dtype;
}

std::string Describe(const Item& item) {
  switch (item.kind) {
    case Item::kValue: return item.value.KindName();
    case Item::kTensor: return "a tensor " + item.shape.ToString() + std::string(Name(item.dtype));
    case Item::kList: return "a list";
    default: return "a value that is not known yet";
  }
}

void CheckArguments(Function function, std::span<const Item> args) {
  for (const Item& arg : args) {
    const bool number = arg.kind == Item::kValue && arg.value.IsNumber();
    if (number || arg.IsTensor() || arg.kind == Item::kLater) continue;
    throw Error(ErrorCode::kInvalidModel, "'" + std::string(Info(function).name) +
                                              "' takes tensors and numbers, got " + Describe(arg));
  }
}

Item CallNumbers(Function function, std::span<const Item> args) {
  std::vector<Value> values;
  std::vector<DType> kinds;
  bool later = false;
  for (const Item& arg : args) {
    values.push_back(arg.value);
    kinds.push_back(KindOf(arg));
    later |= arg.kind == Item::kLater;
  }
  if (!later) return NumberItem(EvaluateNumbers(function, values));
  Item item;
  item.kind = Item::kLater;
  item.dtype = NumberResult(function, kinds);
  return item;
}

DType Promote(std::span<const Item> args) {
  Promotion promotion;
  for (const Item& arg : args) {
    const Weight weight = !arg.IsTensor()         ? Weight::kNumber
                          : arg.shape.rank() == 0 ? Weight::kScalarTensor
                                                  : Weight::kTensor;
    promotion.Add(KindOf(arg), weight);
  }
  return promotion.Result();
}

/// The dtype that the arguments are converted to.
DType CommonDType(Function function, std::span<const Item> args) {
  const TypeRule rule = Info(function).rule;
  if (rule == TypeRule::kFirst && args[0].IsTensor()) return args[0].dtype;
  const DType common = Promote(rule == TypeRule::kWhere ? args.subspan(1) : args);
  const bool whole = IsInteger(common) || common == DType::kBool;
  if (rule == TypeRule::kFloat && whole) return DType::kF32;
  if (rule == TypeRule::kFloatOnly && whole) {
    throw Error(ErrorCode::kUnsupported, "'" + std::string(Info(function).name) +
                                             "' does not take " + std::string(Name(common)));
  }
  return common;
}

int NodeOf(Dag& dag, const Item& item, DType dtype, bool rounded) {
  if (item.IsTensor()) return dag.Convert(item.node, dtype);
  return dag.Constant(item.kind == Item::kLater ? Value(1) : item.value, dtype, rounded);
}

/// A tensor whose shape is what all arguments broadcast to.
Item TensorItem(std::span<const Item> args, int node, DType dtype) {
  Item item;
  item.kind = Item::kTensor;
  item.node = node;
  item.dtype = dtype;
  for (const Item& arg : args) {
    if (arg.kind == Item::kLater) item.ready = false;
    if (!arg.IsTensor()) continue;
    item.shape = BroadcastShapes(item.shape, arg.shape);
    item.ready = item.ready && arg.ready;
  }
  return item;
}

Item CallTensors(Dag& dag, Function function, std::span<const Item> args) {
  const TypeRule rule = Info(function).rule;
  const DType common = CommonDType(function, args);
  const DType result = rule == TypeRule::kBool      ? DType::kBool
                       : rule == TypeRule::kAbs     ? RealDType(common)
                       : rule == TypeRule::kComplex ? ComplexDType(common)
                                                    : common;
  std::array<int, 3> nodes{};
  for (size_t i = 0; i < args.size(); ++i) {
    const bool condition = rule == TypeRule::kWhere && i == 0;
    nodes[i] = NodeOf(dag, args[i], condition ? DType::kBool : common, rule == TypeRule::kBool);
  }
  const int node = dag.Call(function, common, result, {nodes.data(), args.size()});
  return TensorItem(args, node, result);
}

Item CallPlain(Dag& dag, Function function, std::span<const Item> args) {
  const bool tensors =
      std::any_of(args.begin(), args.end(), [](const Item& arg) { return arg.IsTensor(); });
  return tensors ? CallTensors(dag, function, args) : CallNumbers(function, args);
}

Item Call1(Dag& dag, Function function, const Item& x) { return CallPlain(dag, function, {{x}}); }
Item Call2(Dag& dag, Function function, const Item& a, const Item& b) {
  return CallPlain(dag, function, {{a, b}});
}
Item Call3(Dag& dag, Function function, const Item& a, const Item& b, const Item& c) {
  return CallPlain(dag, function, {{a, b, c}});
}

/// Powers that have a function of their own, as in torch.
Item CallPow(Dag& dag, const Item& base, const Item& exponent) {
  const bool number = exponent.kind == Item::kValue && !exponent.value.IsComplex();
  if (!number || !base.IsTensor()) return Call2(dag, Function::kPow, base, exponent);
  const DType common = Promote({{base, exponent}});
  const double power = exponent.value.AsFloat();
  if (IsInteger(common) && power < 0) {
    throw Error(ErrorCode::kInvalidArgument, "integers to negative integer powers are not allowed");
  }
  if (common != DType::kF32 && common != DType::kF64) {
    return Call2(dag, Function::kPow, base, exponent);
  }
  const Item x = CastItem(dag, base, common);
  if (power == 2) return Call2(dag, Function::kMul, x, x);
  if (power == 3) return Call2(dag, Function::kMul, Call2(dag, Function::kMul, x, x), x);
  if (power == 0.5) return Call1(dag, Function::kSqrt, x);
  if (power == -0.5) return Call1(dag, Function::kRsqrt, x);
  if (power == -1) return Call1(dag, Function::kReciprocal, x);
  if (power == -2) return Call1(dag, Function::kReciprocal, Call2(dag, Function::kMul, x, x));
  return Call2(dag, Function::kPow, x, exponent);
}

Item CallClamp(Dag& dag, std::span<const Item> args) {
  const auto none = [](const Item& item) {
    return item.kind == Item::kValue && item.value.IsNone();
  };
  if (none(args[1]) && none(args[2])) {
    throw Error(ErrorCode::kInvalidModel, "'clamp' needs a minimum or a maximum");
  }
  if (none(args[1])) {
    CheckArguments(Function::kClamp, {{args[0], args[2]}});
    return Call2(dag, Function::kMinimum, args[0], args[2]);
  }
  if (none(args[2])) {
    CheckArguments(Function::kClamp, args.first(2));
    return Call2(dag, Function::kMaximum, args[0], args[1]);
  }
  CheckArguments(Function::kClamp, args);
  return CallPlain(dag, Function::kClamp, args);
}

/// `value` in the dtype and the shape of x.
Item CallFill(Dag& dag, const Item& x, const Item& value) {
  if (!x.IsTensor()) return value;
  if (value.IsTensor() && value.shape.elements() != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected one element to fill with, got " + Describe(value));
  }
  const int node = NodeOf(dag, value, x.dtype, false);
  Item filled = TensorItem({{value}}, node, x.dtype);
  filled.shape = x.shape;
  return filled;
}

/// Clamps in the dtype of x, whatever the limits are.
Item CallHardtanh(Dag& dag, const Item& x, const Item& low, const Item& high) {
  if (!x.IsTensor()) return Call3(dag, Function::kClamp, x, low, high);
  const auto negative = [](const Item& limit) {
    return limit.kind == Item::kValue && limit.value.AsFloat() < 0;
  };
  if (x.dtype == DType::kU8 && negative(high)) {
    throw Error(ErrorCode::kInvalidArgument, "u8 has no negative max_val");
  }
  // Below 0 there is nothing to clamp in u8.
  const Item least = x.dtype == DType::kU8 && negative(low) ? NumberItem(Value(0)) : low;
  return Call3(dag, Function::kClamp, x, CastItem(dag, least, x.dtype),
               CastItem(dag, high, x.dtype));
}

}  // namespace

Item NumberItem(Value value) {
  Item item;
  item.value = std::move(value);
  return item;
}

Item CastItem(Dag& dag, const Item& x, DType dtype) {
  Item item = x;
  if (x.IsTensor()) {
    item.node = dag.Convert(x.node, dtype);
    item.dtype = dtype;
    if (item.node != x.node) item.operand = -1;
  } else if (x.kind == Item::kLater) {
    item.dtype = dtype == DType::kBool ? dtype
                 : IsInteger(dtype)    ? DType::kI64
                 : IsFloat(dtype)      ? DType::kF32
                                       : DType::kC64;
  } else {
    CheckArguments(Function::kPositive, {{x}});
    item.value = CastNumber(x.value, dtype);
  }
  return item;
}

Item CallFunction(Dag& dag, Function function, std::span<const Item> args) {
  for (const Item& arg : args) {
    if (arg.kind == Item::kUnknown) return arg;
  }
  if (function == Function::kClamp) return CallClamp(dag, args);
  CheckArguments(function, args);
  const auto truth = [&](size_t i) { return CastItem(dag, args[i], DType::kBool); };
  switch (function) {
    case Function::kPow: return CallPow(dag, args[0], args[1]);
    case Function::kSquare: return CallPow(dag, args[0], NumberItem(2));
    case Function::kHardtanh: return CallHardtanh(dag, args[0], args[1], args[2]);
    case Function::kRelu6: return CallHardtanh(dag, args[0], NumberItem(0), NumberItem(6));
    case Function::kFill: return CallFill(dag, args[0], args[1]);
    case Function::kRealPart:
      if (args[0].IsTensor() && !IsComplex(args[0].dtype)) return args[0];
      return CallPlain(dag, function, args);
    case Function::kTypeAs:
      return args[1].IsTensor() ? CastItem(dag, args[0], args[1].dtype) : args[0];
    case Function::kMaskedFill:
      return Call3(dag, Function::kWhere, args[1],
                   args[0].IsTensor() ? CastItem(dag, args[2], args[0].dtype) : args[2], args[0]);
    case Function::kLogicalAnd: return Call2(dag, Function::kAnd, truth(0), truth(1));
    case Function::kLogicalOr: return Call2(dag, Function::kOr, truth(0), truth(1));
    case Function::kLogicalXor: return Call2(dag, Function::kXor, truth(0), truth(1));
    case Function::kLogicalNot: return Call1(dag, Function::kBitwiseNot, truth(0));
    case Function::kPositive:
      if (args[0].IsTensor() && args[0].dtype == DType::kBool) {
        throw Error(ErrorCode::kUnsupported, "'positive' does not take bool");
      }
      return args[0];
    default: return CallPlain(dag, function, args);
  }
}

}  // namespace oort::expression
