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

int Dag::AddInstruction(Kernel kernel, DType dtype, std::span<const int> args, bool arithmetic) {
  DagNode node;
  node.kind = DagNode::kInstruction;
  node.dtype = dtype;
  node.item = ItemSize(ComputeDType(dtype));
  node.kernel = kernel;
  std::copy(args.begin(), args.end(), node.args.begin());
  node.arithmetic = arithmetic;
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
  return AddInstruction(FindConversion(dtype, DType::kF32), dtype, {{stored}}, false);
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
    return Convert(AddInstruction(kernel, reached, {{node}}, false), dtype);
  }
  if (IsHalf(dtype)) return AddInstruction(FindRounding(dtype), dtype, {{node}}, false);
  // A half in f32 is an f32: the same block under another name.
  return AddInstruction(FindConversion(DType::kF32, DType::kF32), dtype, {{node}}, false);
}

int Dag::Call(Function function, DType common, DType result, std::span<const int> args) {
  const DType computed = ComputeDType(common);
  const Kernel kernel = FindKernel(function, computed, isa_);
  // f16 is computed as f32, but nothing rounds pairs of them to c32.
  if (kernel == nullptr || result == DType::kC32) ThrowUnsupported(Info(function).name, common);
  if (!IsHalf(result)) return AddInstruction(kernel, result, args, true);
  const int wide = AddInstruction(kernel, DType::kF32, args, true);
  return AddInstruction(FindRounding(result), result, {{wide}}, false);
}

}  // namespace oort::expression
