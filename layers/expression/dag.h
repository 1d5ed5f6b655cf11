// SPDX-License-Identifier: MIT
// A computation on tensors before it is put into an order: what reads what, in which dtype.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "layers/expression/kernels.h"
#include "oort/value.h"

namespace oort::expression {

/// The bytes of one element of any dtype.
using ElementBytes = std::array<std::byte, 16>;

struct DagNode {
  enum Kind : unsigned char { kOperand, kConstant, kInstruction };
  Kind kind = kOperand;
  /// Of the value. The block that holds it has ComputeDType(dtype), except for operands, which
  /// are as the tensor has them.
  DType dtype = DType::kNull;
  size_t item = 0;          ///< bytes of an element in the block
  int operand = 0;          ///< for kOperand
  ElementBytes constant{};  ///< for kConstant
  Kernel kernel = nullptr;  ///< for kInstruction
  Opcode opcode;            ///< the same for other devices
  std::array<int, 3> args{-1, -1, -1};
  bool arithmetic = false;  ///< counts as work; conversions do not

  friend bool operator<(const DagNode& a, const DagNode& b) {
    const auto key = [](const DagNode& n) {
      const auto address = reinterpret_cast<uintptr_t>(n.kernel);
      return std::tuple(n.kind, n.dtype, n.operand, n.constant, address, n.args);
    };
    return key(a) < key(b);
  }
};

/// Nodes refer to earlier ones only. Equal nodes are made once.
class Dag {
 public:
  explicit Dag(Isa isa) : isa_(isa) {}
  Isa isa() const { return isa_; }
  const std::vector<DagNode>& nodes() const { return nodes_; }
  const DagNode& operator[](int node) const { return nodes_[static_cast<size_t>(node)]; }

  int Operand(int operand, DType dtype);
  /// Without `rounded`, a number that meets f16 or bf16 keeps its f32 digits, as in torch.
  int Constant(const Value& number, DType dtype, bool rounded = false);
  int Convert(int node, DType dtype);
  /// `function` of nodes that all have the dtype `common` (but for the condition of where).
  /// Throws kUnsupported where there is no such function.
  int Call(Function function, DType common, DType result, std::span<const int> args);

 private:
  int Add(const DagNode& node);
  int AddInstruction(Kernel kernel, const Opcode& opcode, DType dtype, std::span<const int> args);
  Isa isa_;
  std::vector<DagNode> nodes_;
  std::map<DagNode, int> known_;
};

}  // namespace oort::expression
