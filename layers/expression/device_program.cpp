// SPDX-License-Identifier: MIT
#include "layers/expression/device_program.h"

#include <algorithm>
#include <cstring>

namespace oort::expression {
namespace {

bool IsNarrow(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kBool;
}

bool FitsRegisters(DType dtype) { return kReals.Contains(dtype); }

/// Axes of the output that every operand steps through as one are one.
struct MergedAxes {
  int count = 0;
  std::array<int64_t, Shape::kMaxRank> extents{};  // innermost first
  std::array<std::array<int64_t, Shape::kMaxRank>, DeviceProgram::kMaxOperands> strides{};
};

int64_t StrideAlong(const View& view, const Shape& out, int axis) {
  const int own = axis - (out.rank() - view.shape.rank());
  if (own < 0 || view.shape[own] == 1) return 0;
  return view.strides[static_cast<size_t>(own)];
}

MergedAxes Merge(std::span<const View* const> views, const Shape& out) {
  MergedAxes merged;
  for (int axis = out.rank() - 1; axis >= 0; --axis) {
    if (out[axis] == 1) continue;
    bool joins = merged.count > 0;
    const size_t last = static_cast<size_t>(merged.count - 1);
    for (size_t i = 0; i < views.size() && joins; ++i) {
      joins = StrideAlong(*views[i], out, axis) == merged.strides[i][last] * merged.extents[last];
    }
    if (joins) {
      merged.extents[last] *= out[axis];
      continue;
    }
    const size_t at = static_cast<size_t>(merged.count++);
    merged.extents[at] = out[axis];
    for (size_t i = 0; i < views.size(); ++i) {
      merged.strides[i][at] = StrideAlong(*views[i], out, axis);
    }
  }
  return merged;
}

bool Fits(const Code& code, const Shape& out) {
  using P = DeviceProgram;
  if (code.instructions.size() > P::kMaxInstructions || code.operands.size() > P::kMaxOperands ||
      code.constants.size() > P::kMaxConstants || code.slots > P::kMaxSlots) {
    return false;
  }
  return FitsRegisters(code.dtype) && out.elements() <= INT32_MAX;
}

bool EncodeInstructions(const Code& code, DeviceProgram& program) {
  for (const Code::Instruction& from : code.instructions) {
    const Opcode& op = from.opcode;
    if (!FitsRegisters(op.from) || !FitsRegisters(op.to)) return false;
    if (op.kind == Opcode::kCall && !DeviceHas(op.function, op.from)) return false;
    program.narrow = program.narrow && IsNarrow(op.from) && IsNarrow(op.to);
    DeviceProgram::Instruction& to = program.instructions[program.instruction_count++];
    to.kind = op.kind;
    to.function = static_cast<uint8_t>(op.function);
    to.from = static_cast<uint8_t>(op.from);
    to.to = static_cast<uint8_t>(op.to);
    for (size_t i = 0; i < 3; ++i) {
      to.args[i] = static_cast<uint8_t>(std::max(from.args[i], 0));
    }
    to.target = static_cast<uint8_t>(from.target);
  }
  return true;
}

bool EncodeOperands(const Code& code, std::span<const View> operands, const Shape& out,
                    DeviceProgram& program) {
  std::vector<const View*> views;
  for (const Code::OperandSlot& slot : code.operands) {
    views.push_back(&operands[static_cast<size_t>(slot.operand)]);
  }
  const MergedAxes merged = Merge(views, out);
  program.axes = merged.count;
  for (int i = 0; i < merged.count; ++i) {
    program.extents[i] =
        cuda::Divider(static_cast<unsigned>(merged.extents[static_cast<size_t>(i)]));
  }
  for (size_t i = 0; i < views.size(); ++i) {
    const Code::OperandSlot& slot = code.operands[i];
    if (!FitsRegisters(slot.dtype)) return false;
    program.narrow = program.narrow && IsNarrow(slot.dtype);
    DeviceProgram::Operand& operand = program.operands[program.operand_count++];
    operand.data = views[i]->data;
    operand.slot = static_cast<uint8_t>(slot.slot);
    operand.dtype = static_cast<uint8_t>(slot.dtype);
    int64_t dense = 1;
    operand.single = operand.direct = true;
    for (int axis = 0; axis < merged.count; ++axis) {
      const size_t at = static_cast<size_t>(axis);
      operand.strides[axis] = merged.strides[i][at];
      operand.single = operand.single && merged.strides[i][at] == 0;
      operand.direct = operand.direct && merged.strides[i][at] == dense;
      dense *= merged.extents[at];
    }
  }
  return true;
}

}  // namespace

bool DeviceHas(Function function, DType dtype) {
  return Info(function).on_gpu && FindKernel(function, dtype, Isa::kScalar) != nullptr;
}

std::optional<DeviceProgram> Encode(const Code& code, std::span<const View> operands,
                                    const Shape& out) {
  if (!Fits(code, out)) return {};
  DeviceProgram program{};
  program.narrow = IsNarrow(code.dtype);
  program.slots = code.slots;
  program.output_dtype = static_cast<uint8_t>(code.dtype);
  program.count = out.elements();
  if (!EncodeInstructions(code, program) || !EncodeOperands(code, operands, out, program))
    return {};
  for (const Code::ConstantSlot& from : code.constants) {
    if (!FitsRegisters(from.dtype)) return {};
    program.narrow = program.narrow && IsNarrow(from.dtype);
    DeviceProgram::Constant& to = program.constants[program.constant_count++];
    to.slot = static_cast<uint8_t>(from.slot);
    to.dtype = static_cast<uint8_t>(from.dtype);
    std::memcpy(&to.bits, from.value.data(), sizeof(to.bits));
  }
  return program;
}

}  // namespace oort::expression
