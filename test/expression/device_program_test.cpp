// SPDX-License-Identifier: MIT
// What the GPU's interpreter is given, without a GPU.
#include "layers/expression/device_program.h"

#include <gtest/gtest.h>

#include <cstring>

#include "layers/expression/lower.h"
#include "oort/testing.h"

namespace oort::expression {
namespace {

std::optional<DeviceProgram> EncodeText(const std::string& text, const std::vector<Tensor>& inputs,
                                        Shape* out = nullptr) {
  std::vector<Value> values(inputs.begin(), inputs.end());
  std::vector<const Value*> operands;
  for (const Value& value : values) operands.push_back(&value);
  const Lowered lowered = Lower(Parse(text), operands, Isa::kScalar);
  if (out != nullptr) *out = lowered.result.shape;
  return Encode(Compile(lowered.dag, lowered.result.node), ViewsOf(operands), lowered.result.shape);
}

TEST(DeviceProgram, KeepsTheOrderOfInstructionsAndEndsInSlotZero) {
  const Tensor x = testing::RandomTensor(DType::kF32, {6});
  const auto program = EncodeText("relu(add(@0,1.5))", {x});
  ASSERT_TRUE(program);
  ASSERT_EQ(program->instruction_count, 2);
  EXPECT_EQ(program->instructions[0].function, static_cast<uint8_t>(Function::kAdd));
  EXPECT_EQ(program->instructions[1].function, static_cast<uint8_t>(Function::kRelu));
  EXPECT_EQ(program->instructions[1].target, 0);
  EXPECT_EQ(program->instructions[1].args[0], program->instructions[0].target);
  ASSERT_EQ(program->constant_count, 1);
  float constant;
  std::memcpy(&constant, &program->constants[0].bits, sizeof(constant));
  EXPECT_EQ(constant, 1.5f);
  EXPECT_TRUE(program->narrow);
  EXPECT_TRUE(program->operands[0].direct);
  EXPECT_EQ(program->count, 6);
}

TEST(DeviceProgram, MergesAxesThatAllOperandsStepThroughAlike) {
  const Tensor x = testing::RandomTensor(DType::kF32, {2, 3, 4, 5});
  const auto same = EncodeText("add(@0,@1)", {x, x});
  ASSERT_TRUE(same);
  EXPECT_EQ(same->axes, 1);
  const auto channel = EncodeText("add(@0,@1)", {x, testing::RandomTensor(DType::kF32, {3, 1, 1})});
  ASSERT_TRUE(channel);
  ASSERT_EQ(channel->axes, 3);
  EXPECT_EQ(channel->extents[0].divisor, 20u);
  EXPECT_EQ(channel->extents[1].divisor, 3u);
  EXPECT_EQ(channel->extents[2].divisor, 2u);
  const DeviceProgram::Operand& bias = channel->operands[channel->operands[0].direct ? 1 : 0];
  EXPECT_EQ(bias.strides[0], 0);
  EXPECT_EQ(bias.strides[1], 1);
  EXPECT_EQ(bias.strides[2], 0);
  const auto number = EncodeText("mul(@0,@1)", {x, testing::RandomTensor(DType::kF32, {})});
  ASSERT_TRUE(number);
  EXPECT_EQ(number->axes, 1);
  EXPECT_TRUE(number->operands[number->operands[0].direct ? 1 : 0].single);
}

TEST(DeviceProgram, OtherDTypesTakeWideRegisters) {
  const auto narrow = [](DType dtype) {
    const auto program = EncodeText("add(@0,@0)", {testing::RandomTensor(dtype, {3})});
    EXPECT_TRUE(program);
    return program && program->narrow;
  };
  EXPECT_TRUE(narrow(DType::kF32));
  EXPECT_TRUE(narrow(DType::kF16));
  EXPECT_TRUE(narrow(DType::kBF16));
  EXPECT_TRUE(narrow(DType::kBool));
  EXPECT_FALSE(narrow(DType::kF64));
  EXPECT_FALSE(narrow(DType::kI32));
  EXPECT_FALSE(narrow(DType::kI64));
}

TEST(DeviceProgram, RefusesWhatTheKernelLacks) {
  const Tensor x = testing::RandomTensor(DType::kF32, {3}, 1, 1, 2);
  EXPECT_FALSE(EncodeText("digamma(@0)", {x}));
  EXPECT_FALSE(EncodeText("add(@0,@0)", {x.To(DType::kC64)}));
  std::string longer = "@0";
  for (int i = 0; i < DeviceProgram::kMaxInstructions + 1; ++i) longer = "exp(" + longer + ")";
  EXPECT_FALSE(EncodeText(longer, {x}));
}

}  // namespace
}  // namespace oort::expression
