// SPDX-License-Identifier: MIT
// Register code as the GPU runs it: encoded on the host, interpreted by one kernel.
#pragma once

#include <optional>

#include "cuda/divide.h"
#include "layers/expression/code.h"

namespace oort::expression {

/// Passed to the kernel by value. Registers are numbered like the slots of Code; 0 is the output.
struct DeviceProgram {
  static constexpr int kMaxInstructions = 96;
  static constexpr int kMaxOperands = 16;
  static constexpr int kMaxConstants = 32;
  static constexpr int kMaxSlots = 40;

  struct Instruction {
    uint8_t kind;  ///< Opcode::Kind
    uint8_t function;
    uint8_t from, to;  ///< DType
    uint8_t args[3];
    uint8_t target;
  };
  struct Operand {
    const std::byte* data;
    uint8_t slot, dtype;
    bool single;                       ///< one element for all of the output
    bool direct;                       ///< as many as the output has, in its order
    int64_t strides[Shape::kMaxRank];  ///< in elements, innermost first, along `extents`
  };
  struct Constant {
    uint64_t bits;  ///< of an element of `dtype`, in the low bytes
    uint8_t slot, dtype;
  };

  Instruction instructions[kMaxInstructions];
  Operand operands[kMaxOperands];
  Constant constants[kMaxConstants];
  cuda::Divider extents[Shape::kMaxRank];  ///< of the output, innermost first, axes merged
  int axes, instruction_count, operand_count, constant_count, slots;
  uint8_t output_dtype;
  bool narrow;  ///< all values are f32, f16, bf16 or bool: registers of f32 will do
  std::byte* output;
  int64_t count;
};

/// Nothing where the code is too long, or has elements or functions that the kernel lacks.
std::optional<DeviceProgram> Encode(const Code& code, std::span<const View> operands,
                                    const Shape& out);

/// Whether the kernel has this function for elements of that dtype.
bool DeviceHas(Function function, DType dtype);

}  // namespace oort::expression
