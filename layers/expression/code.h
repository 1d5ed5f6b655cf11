// SPDX-License-Identifier: MIT
// Register code: a tensor computation that runs over blocks of elements in one pass.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/small_vector.h"
#include "layers/device_kernel.h"
#include "layers/expression/dag.h"
#include "oort/layer.h"

namespace oort::expression {

/// Instructions read and write slots. A slot is a block of elements: of the output (slot 0), of
/// an operand, of a constant, or a register. The code does not depend on shapes.
struct Code {
  struct Instruction {
    Kernel kernel;
    Opcode opcode;
    std::array<int, 3> args;  ///< slots; -1 where there is none
    int target;
    /// Kernels that take an argument as one element that stands for all; null where there is none.
    std::array<Kernel, 3> repeated{};
  };
  struct OperandSlot {
    int slot;
    int operand;
    size_t item;
    DType dtype;
  };
  struct ConstantSlot {
    int slot;
    ElementBytes value;
    size_t item;
    DType dtype;  ///< of the elements in `value`
  };
  std::vector<Instruction> instructions;
  std::vector<OperandSlot> operands;
  std::vector<ConstantSlot> constants;
  int slots = 1;
  size_t item = 1;     ///< bytes of the widest element in any slot
  DType dtype{};       ///< of the output
  int arithmetic = 0;  ///< instructions that count as work
  /// The same for a CPU in f16 alone, where it is a single function and the CPU has it; else null.
  std::shared_ptr<const Code> in_f16;
};

Code Compile(const Dag& dag, int root);

/// Elements of an operand: those of a tensor, or a part of them that is no tensor of its own.
struct View {
  const std::byte* data = nullptr;
  Shape shape;
  std::array<int64_t, Shape::kMaxRank> strides{};  ///< in elements
  bool on_host = true;

  View() = default;
  View(const Tensor& tensor);  // NOLINT: implicit on purpose
};
/// One view for each value; of those that are no tensors it is empty.
SmallVector<View, 4> ViewsOf(std::span<const Value* const> operands);

/// Computes `out` from the operands that the code names; their shapes must broadcast to its own.
/// `out` may share its memory with operands of the same shape and item size.
void Run(const Code& code, std::span<const View> operands, Tensor& out, const Context& context);

/// The same on the GPU.
void RunOnDevice(cuda::Stream&, const Code& code, std::span<const View> operands,
                 Tensor& out) OORT_CUDA_ONLY;

}  // namespace oort::expression
