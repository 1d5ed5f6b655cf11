// SPDX-License-Identifier: MIT
#include "layers/expression/dag.h"

#include <algorithm>
#include <cstring>

#include "layers/expression/element_functions.h"

namespace oort::expression {
namespace {

bool IsHalf(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

template <typename T>
T NumberAs(const Value& number) {
  if constexpr (kIsComplex<T>) return ConvertElement<T>(number.AsComplex());
  if (number.IsInt() || number.IsBool()) return ConvertElement<T>(number.AsInt());
  return ConvertElement<T>(number.AsFloat());
}

ElementBytes NumberBytes(const Value& number, DType dtype) {
  ElementBytes bytes{};
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T value = NumberAs<T>(number);
    std::memcpy(bytes.data(), &value, sizeof(value));
  });
  return bytes;
}

Opcode Conversion(DType from, DType to) { return {Opcode::kConvert, {}, from, to}; }
Opcode Rounding(DType half) { return {Opcode::kRound, {}, DType::kF32, half}; }

[[noreturn]] void ThrowUnsupported(std::string_view what, DType dtype) {
  throw Error(ErrorCode::kUnsupported,
              "'" + std::string(what) + "' does not take " + std::string(Name(dtype)));
}

}  // namespace

int Dag::Add(const DagNode& node) {
  const auto [position, added] = known_.try_emplace(node, static_cast<int>(nodes_.size()));
  if (added) nodes_.push_back(node);
  return position->second;
}

int Dag::AddInstruction(Kernel kernel, const Opcode& opcode, DType dtype,
                        std::span<const int> args) {
  DagNode node;
  node.kind = DagNode::kInstruction;
  node.dtype = dtype;
  node.item = ItemSize(ComputeDType(dtype));
  node.kernel = kernel;
  node.opcode = opcode;
  std::copy(args.begin(), args.end(), node.args.begin());
  node.arithmetic = opcode.kind == Opcode::kCall;
  return Add(node);
}

int Dag::Operand(int operand, DType dtype) {
  DagNode node;
  node.kind = DagNode::kOperand;
  node.dtype = dtype;
  node.item = ItemSize(dtype);
  node.operand = operand;
  const int stored = Add(node);
  if (!IsHalf(dtype)) return stored;
  return AddInstruction(FindConversion(dtype, DType::kF32), Conversion(dtype, DType::kF32), dtype,
                        {{stored}});
}

int Dag::Constant(const Value& number, DType dtype, bool rounded) {
  DagNode node;
  node.kind = DagNode::kConstant;
  node.dtype = dtype;
  node.item = ItemSize(ComputeDType(dtype));
  node.constant = NumberBytes(number, ComputeDType(dtype));
  if (rounded && IsHalf(dtype)) {
    const void* arg = node.constant.data();
    FindRounding(dtype)(&arg, node.constant.data(), 1);
  }
  return Add(node);
}

int Dag::Convert(int node, DType dtype) {
  const DType from = (*this)[node].dtype;
  if (from == dtype) return node;
  if (ComputeDType(from) != ComputeDType(dtype)) {
    const Kernel kernel = FindConversion(ComputeDType(from), ComputeDType(dtype));
    if (kernel == nullptr) ThrowUnsupported("to " + std::string(Name(dtype)), from);
    const DType reached = ComputeDType(dtype);
    return Convert(
        AddInstruction(kernel, Conversion(ComputeDType(from), reached), reached, {{node}}), dtype);
  }
  if (IsHalf(dtype)) return AddInstruction(FindRounding(dtype), Rounding(dtype), dtype, {{node}});
  // A half in f32 is an f32: the same block under another name.
  return AddInstruction(FindConversion(DType::kF32, DType::kF32),
                        Conversion(DType::kF32, DType::kF32), dtype, {{node}});
}

int Dag::Call(Function function, DType common, DType result, std::span<const int> args) {
  const DType computed = ComputeDType(common);
  const Kernel kernel = FindKernel(function, computed, isa_);
  // f16 is computed as f32, but nothing rounds pairs of them to c32.
  if (kernel == nullptr || result == DType::kC32) ThrowUnsupported(Info(function).name, common);
  const Opcode opcode{Opcode::kCall, function, computed, ComputeDType(result)};
  if (!IsHalf(result)) return AddInstruction(kernel, opcode, result, args);
  const int wide = AddInstruction(kernel, opcode, DType::kF32, args);
  return AddInstruction(FindRounding(result), Rounding(result), result, {{wide}});
}

}  // namespace oort::expression
