// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

struct Stretch {
  int64_t start, length;
};

std::vector<Tensor> Parts(const Tensor& x, int axis, const std::vector<Stretch>& stretches) {
  std::vector<Tensor> parts;
  for (const Stretch& stretch : stretches) {
    Shape shape = x.shape();
    shape[axis] = stretch.length;
    parts.push_back(Moved(x, shape, [&](Coordinates at) {
      at[static_cast<size_t>(axis)] += stretch.start;
      return at;
    }));
  }
  return parts;
}

OperatorCase Case(const char* type, const char* key, const char* value, const char* dim,
                  const Tensor& x, int outputs) {
  return OperatorCase(type).Param(key, value).Param("dim", dim).Input(x).Outputs(outputs);
}

TEST(Chunk, CutsEvenlyAndMayGiveFewer) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {3, 7, 2});
    Case("torch.chunk", "chunks", "3", "1", x, 3)
        .ExpectOutputs(Parts(x, 1, {{0, 3}, {3, 3}, {6, 1}}));
    Case("torch.chunk", "chunks", "4", "-2", x, 4)
        .ExpectOutputs(Parts(x, 1, {{0, 2}, {2, 2}, {4, 2}, {6, 1}}));
    Case("torch.chunk", "chunks", "5", "0", x, 3)
        .ExpectOutputs(Parts(x, 0, {{0, 1}, {1, 1}, {2, 1}}));
    Case("torch.chunk", "chunks", "1", "0", x, 1).ExpectOutputs({x});
  }
  const Tensor empty(DType::kF32, {0, 2});
  Case("torch.chunk", "chunks", "2", "0", empty, 2).ExpectOutputs({empty, empty});
}

TEST(Chunk, RefusesWrongNumbers) {
  const Tensor x = RandomTensor(DType::kF32, {3, 7});
  Case("torch.chunk", "chunks", "0", "1", x, 1).ExpectError(ErrorCode::kInvalidArgument, "got 0");
  Case("torch.chunk", "chunks", "-3", "1", x, 1).ExpectError(ErrorCode::kInvalidArgument, "got -3");
  Case("torch.chunk", "chunks", "3", "1", x, 2)
      .ExpectError(ErrorCode::kInvalidArgument, "expected 2 parts of a tensor (3,7)f32, got 3");
  Case("torch.chunk", "chunks", "1", "0", RandomTensor(DType::kF32, {}), 1)
      .ExpectError(ErrorCode::kInvalidArgument, "rank of at least 1");
}

TEST(Split, CutsByLength) {
  const Tensor x = RandomTensor(DType::kF32, {3, 9, 2});
  const auto split = [&](const char* sizes, const char* dim, int outputs) {
    return Case("torch.split", "split_size_or_sections", sizes, dim, x, outputs);
  };
  split("4", "1", 3).ExpectOutputs(Parts(x, 1, {{0, 4}, {4, 4}, {8, 1}}));
  split("(1,3,5)", "1", 3).ExpectOutputs(Parts(x, 1, {{0, 1}, {1, 3}, {4, 5}}));
  split("(9,0)", "-2", 2).ExpectOutputs(Parts(x, 1, {{0, 9}, {9, 0}}));
  split("(3)", "0", 1).ExpectOutputs({x});
  split("100", "0", 1).ExpectOutputs({x});
  split("(1,3,4)", "1", 3)
      .ExpectError(ErrorCode::kInvalidArgument, "cannot cut an axis of 9 into (1,3,4)");
  split("(1,3,6)", "1", 3).ExpectError(ErrorCode::kInvalidArgument, "cannot cut");
  split("(10,-1)", "1", 2).ExpectError(ErrorCode::kInvalidArgument, "cannot cut");
  split("0", "1", 2).ExpectError(ErrorCode::kInvalidArgument, "parts of 0");
  split("-2", "1", 2).ExpectError(ErrorCode::kInvalidArgument, "parts of -2");
}

TEST(TensorSplit, CutsAtIndicesOrIntoSections) {
  const Tensor x = RandomTensor(DType::kF32, {7, 3});
  const auto at = [&](const char* indices, int outputs) {
    return Case("torch.tensor_split", "indices", indices, "0", x, outputs);
  };
  at("(2,4)", 3).ExpectOutputs(Parts(x, 0, {{0, 2}, {2, 2}, {4, 3}}));
  at("(-2)", 2).ExpectOutputs(Parts(x, 0, {{0, 5}, {5, 2}}));
  // torch.tensor_split(torch.arange(7), (5, 2, -1, 100))
  at("(5,2,-1,100)", 5).ExpectOutputs(Parts(x, 0, {{0, 5}, {5, 0}, {2, 4}, {6, 1}, {7, 0}}));
  const auto into = [&](const char* sections, int outputs) {
    return Case("torch.tensor_split", "sections", sections, "0", x, outputs);
  };
  into("3", 3).ExpectOutputs(Parts(x, 0, {{0, 3}, {3, 2}, {5, 2}}));
  into("9", 9).ExpectOutputs(
      Parts(x, 0, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 0}, {7, 0}}));
  into("0", 1).ExpectError(ErrorCode::kInvalidArgument, "got 0");
  OperatorCase("torch.tensor_split").Input(x).ExpectError(ErrorCode::kInvalidArgument, "neither");
}

TEST(Unbind, TakesAnAxisApart) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<Tensor> expected;
    for (int64_t i = 0; i < x.shape()[axis]; ++i) {
      Shape shape = x.shape();
      shape.Erase(axis);
      expected.push_back(Moved(x, shape, [&](Coordinates at) {
        at.insert(at.begin() + axis, i);
        return at;
      }));
    }
    OperatorCase("torch.unbind")
        .Param("dim", std::to_string(axis - 3))
        .Input(x)
        .Outputs(static_cast<int>(expected.size()))
        .ExpectOutputs(expected);
    // One output for all of them is a list.
    OperatorCase("torch.unbind")
        .Param("dim", std::to_string(axis))
        .Input(x)
        .ExpectOutputs(expected);
  }
  const Tensor one = RandomTensor(DType::kF32, {1});
  OperatorCase("torch.unbind").Param("dim", "0").Input(one).ExpectOutputs({one.Reshaped({})});
  OperatorCase("torch.unbind")
      .Param("dim", "0")
      .Input(RandomTensor(DType::kF32, {}))
      .ExpectError(ErrorCode::kInvalidArgument, "cannot unbind");
}

}  // namespace
}  // namespace oort::testing
