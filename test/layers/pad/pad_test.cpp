// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

/// Where coordinate `along` of an axis comes from; -1 for the constant.
int64_t Source(int64_t along, int64_t extent, const std::string& mode) {
  if (along >= 0 && along < extent) return along;
  if (mode == "reflect") return along < 0 ? -along : 2 * extent - 2 - along;
  if (mode == "replicate") return along < 0 ? 0 : extent - 1;
  if (mode == "circular") return (along + extent) % extent;
  return -1;
}

/// Element by element; `pairs` from the last axis backwards.
Tensor Padded(const Tensor& x, const std::vector<int64_t>& pairs, const std::string& mode,
              double value = 0) {
  Shape shape = x.shape();
  for (size_t i = 0; i < pairs.size(); ++i) {
    shape[x.rank() - 1 - static_cast<int>(i / 2)] += pairs[i];
  }
  const Tensor fill = RangeTensor(x.dtype(), {1}, value);
  const size_t item = ItemSize(x.dtype());
  Tensor result(x.dtype(), shape);
  for (int64_t i = 0; i < result.elements(); ++i) {
    Coordinates at = CoordinatesOf(shape, i);
    bool inside = true;
    for (size_t pair = 0; pair < pairs.size() / 2; ++pair) {
      const size_t axis = at.size() - 1 - pair;
      at[axis] = Source(at[axis] - pairs[2 * pair], x.shape()[static_cast<int>(axis)], mode);
      inside = inside && at[axis] >= 0;
    }
    const std::byte* from =
        inside ? x.raw() + static_cast<size_t>(FlatIndex(x.shape(), at)) * item : fill.raw();
    std::memcpy(result.raw() + static_cast<size_t>(i) * item, from, item);
  }
  return result;
}

OperatorCase Pad(const Tensor& x, const std::vector<int64_t>& pairs, const std::string& mode) {
  return OperatorCase("F.pad").Param("pad", ListText(pairs)).Param("mode", mode).Input(x, "input");
}

const char* const kModes[] = {"constant", "reflect", "replicate", "circular"};

TEST(Pad, EveryModeOnOneToThreeAxes) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {2, 3, 5, 4, 6});
    for (const char* mode : kModes) {
      SCOPED_TRACE(mode);
      for (const std::vector<int64_t>& pairs : {std::vector<int64_t>{3, 4},
                                                {0, 0},
                                                {5, 0, 1, 2},
                                                {0, 0, 2, 3},
                                                {1, 2, 3, 0, 2, 1},
                                                {0, 0, 0, 0, 3, 1},
                                                {-1, 2},
                                                {2, -3, -1, -1}}) {
        if (std::string(mode) == "circular" && pairs[0] < 0) continue;  // see below
        if (std::string(mode) == "circular" && pairs.size() > 1 && pairs[1] < 0) continue;
        Pad(x, pairs, mode).ExpectOutputs({Padded(x, pairs, mode)});
      }
    }
  }
}

TEST(Pad, WritesTheConstant) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  Pad(x, {1, 2, 2, 1}, "constant")
      .Param("value", "1.5")
      .ExpectOutputs({Padded(x, {1, 2, 2, 1}, "constant", 1.5)});
  Pad(x, {1, 0, 0, 0, 1, 0}, "constant")
      .Param("value", "None")
      .ExpectOutputs({Padded(x, {1, 0, 0, 0, 1, 0}, "constant", 0)});
  Pad(x, {1, 2}, "constant")
      .Param("value", "-inf")
      .ExpectOutputs({Padded(x, {1, 2}, "constant", -INFINITY)});
  const Tensor integers = RandomTensor(DType::kI64, {3});
  Pad(integers, {1, 1}, "constant")
      .Param("value", "2.9")
      .ExpectOutputs({Padded(integers, {1, 1}, "constant", 2)});
}

TEST(Pad, WorksOnEdgeSizes) {
  for (int64_t length : EdgeLengths()) {
    const Tensor x = RandomTensor(DType::kF32, {3, length});
    for (const char* mode : kModes) {
      const int64_t reach = std::string(mode) == "constant" ? 9 : std::max<int64_t>(length - 1, 0);
      const std::vector<int64_t> pairs = {reach, reach / 2};
      Pad(x, pairs, mode).ExpectOutputs({Padded(x, pairs, mode)});
    }
  }
  const Tensor large = RandomTensor(DType::kF32, {3, 120, 500});
  Pad(large, {1, 1, 1, 1}, "reflect").ExpectOutputs({Padded(large, {1, 1, 1, 1}, "reflect")});
  // Rows that several threads begin at, of two padded axes outside of them.
  for (const char* mode : {"constant", "replicate"}) {
    const std::vector<int64_t> pairs = {2, 3, 5, 1, 1, 2};
    Pad(large, pairs, mode).ExpectOutputs({Padded(large, pairs, mode)});
  }
}

TEST(Pad, CircularWrapsAroundWhatCutsLeave) {
  const Tensor x = RangeTensor(DType::kF32, {1, 5});
  Pad(x, {-2, 2}, "circular").ExpectOutputs({Tensor::From<float>({2, 3, 4, 2, 3}, {1, 5})});
  Pad(x, {2, -2}, "circular").ExpectOutputs({Tensor::From<float>({1, 2, 0, 1, 2}, {1, 5})});
  Pad(x, {-2, 4}, "circular").ExpectError(ErrorCode::kInvalidArgument, "cannot pad axis 1");
}

TEST(Pad, TakesComputedPadding) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("F.pad")
      .Param("mode", "constant")
      .Input(x, "input")
      .Input(Value::List{1, 0, 0, 2}, "pad")
      .ExpectOutputs({Padded(x, {1, 0, 0, 2}, "constant")});
}

TEST(Pad, RefusesWhatIsOutOfReach) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  const auto refuse = [&](const std::vector<int64_t>& pairs, const char* mode, const char* text) {
    SCOPED_TRACE(mode);
    Pad(x, pairs, mode).ExpectError(ErrorCode::kInvalidArgument, text);
  };
  refuse({3, 0}, "reflect", "cannot pad axis 1 of shape (2,3) by (3,0)");
  refuse({0, 4}, "circular", "cannot pad axis 1");
  refuse({-2, -2}, "constant", "cannot pad axis 1");
  refuse({-4, 3}, "constant", "cannot pad axis 1");
  refuse({1}, "constant", "expected pairs of padding for at most 2 axes, got 1 numbers");
  refuse({1, 1, 1, 1, 1, 1}, "constant", "expected pairs of padding");
  refuse({2147483647, 2147483647, 2147483647, 2147483647}, "constant", "");
  Pad(RandomTensor(DType::kF32, {2, 0}), {1, 1}, "replicate")
      .ExpectError(ErrorCode::kInvalidArgument, "cannot pad axis 1");
  Pad(x, {1, 1}, "mirror").ExpectError(ErrorCode::kInvalidModel, "must be one of constant");
  for (const char* mode : kModes) {
    OperatorCase("F.pad")
        .Param("mode", mode)
        .Input(x, "input")
        .Input(Value::List{INT64_MIN, INT64_MAX}, "pad")
        .ExpectError(ErrorCode::kInvalidArgument, "");
  }
}

TEST(PadModules, PadOneToThreeAxes) {
  const struct {
    const char* prefix;
    const char* mode;
  } kinds[] = {{"nn.ConstantPad", "constant"},
               {"nn.ZeroPad", "constant"},
               {"nn.ReflectionPad", "reflect"},
               {"nn.ReplicationPad", "replicate"},
               {"nn.CircularPad", "circular"}};
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4, 5, 6});
  const std::vector<int64_t> six = {1, 2, 3, 0, 2, 1};
  for (const auto& kind : kinds) {
    for (int axes = 1; axes <= 3; ++axes) {
      const std::string type = kind.prefix + std::to_string(axes) + "d";
      SCOPED_TRACE(type);
      const std::vector<int64_t> pairs(six.begin(), six.begin() + 2 * axes);
      const bool constant = std::string(kind.prefix) == "nn.ConstantPad";
      OperatorCase test(type);
      test.Param("padding", ListText(pairs)).Input(x);
      if (constant) test.Param("value", "-2.5");
      test.ExpectOutputs({Padded(x, pairs, kind.mode, constant ? -2.5 : 0)});
      OperatorCase one(type);  // one number stands for all sides
      one.Param("padding", "1").Input(x);
      if (constant) one.Param("value", "0.0");
      one.ExpectOutputs(
          {Padded(x, std::vector<int64_t>(static_cast<size_t>(2 * axes), 1), kind.mode)});
    }
  }
  OperatorCase("nn.ZeroPad2d")
      .Param("padding", "(1,2)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "expected 4 elements");
}

}  // namespace
}  // namespace oort::testing
