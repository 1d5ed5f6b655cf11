// SPDX-License-Identifier: MIT
// Movements of elements that pnnx leaves as ATen operators.
#include <gtest/gtest.h>

#include "aten_form.h"
#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(AtenShape, MovesAxes) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {2, 3, 4});
    OperatorCase("aten::movedim")
        .Param("source", "(0,1)")
        .Param("destination", "(-1,0)")
        .Input(x)
        .ExpectOutputs({Moved(x, {3, 4, 2}, [](const Coordinates& at) {
          return Coordinates{at[2], at[0], at[1]};
        })});
    OperatorCase("aten::mT").Input(x).ExpectOutputs({Moved(x, {2, 4, 3}, [](const Coordinates& at) {
      return Coordinates{at[0], at[2], at[1]};
    })});
    OperatorCase("aten::numpy_T")
        .Input(x)
        .ExpectOutputs({Moved(x, {4, 3, 2}, [](const Coordinates& at) {
          return Coordinates{at[2], at[1], at[0]};
        })});
  }
  OperatorCase("aten::movedim")
      .Param("source", "(0,1)")
      .Param("destination", "0")
      .Input(RandomTensor(DType::kF32, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "as many places as axes");
  OperatorCase("aten::mT")
      .Input(RandomTensor(DType::kF32, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank of at least 2");
}

TEST(AtenShape, TurnsAndFlipsPlanes) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4});
  OperatorCase("aten::rot90").Input(x).ExpectOutputs({Moved(x, {4, 3}, [](const Coordinates& at) {
    return Coordinates{at[1], 3 - at[0]};
  })});
  OperatorCase("aten::rot90")
      .Param("k", "-1")
      .Input(x)
      .ExpectOutputs({Moved(x, {4, 3}, [](const Coordinates& at) {
        return Coordinates{2 - at[1], at[0]};
      })});
  OperatorCase("aten::rot90")
      .Param("k", "6")
      .Input(x)
      .ExpectOutputs({Moved(x, {3, 4}, [](const Coordinates& at) {
        return Coordinates{2 - at[0], 3 - at[1]};
      })});
  OperatorCase("aten::fliplr").Input(x).ExpectOutputs({Moved(x, {3, 4}, [](const Coordinates& at) {
    return Coordinates{at[0], 3 - at[1]};
  })});
  OperatorCase("aten::flipud").Input(x).ExpectOutputs({Moved(x, {3, 4}, [](const Coordinates& at) {
    return Coordinates{2 - at[0], at[1]};
  })});
  OperatorCase("aten::fliplr")
      .Input(RandomTensor(DType::kF32, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank of at least 2");
  OperatorCase("aten::rot90")
      .Param("dims", "(1,1)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "twice");
}

TEST(AtenShape, UnfoldsAnAxis) {
  const Tensor x = RandomTensor(DType::kI64, {2, 7});
  OperatorCase("Tensor.unfold")
      .Param("dimension", "1")
      .Param("size", "3")
      .Param("step", "2")
      .Input(x)
      .ExpectOutputs({Moved(x, {2, 3, 3}, [](const Coordinates& at) {
        return Coordinates{at[0], at[1] * 2 + at[2]};
      })});
  for (const auto& [size, step] : {std::pair("8", "1"), {"-1", "1"}, {"2", "0"}}) {
    OperatorCase("aten::unfold")
        .Param("dimension", "1")
        .Param("size", size)
        .Param("step", step)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, "has no windows");
  }
}

TEST(AtenShape, TakesDiagonalsOfStacks) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  const auto diagonal = [&](const char* offset) {
    return OperatorCase("aten::diagonal")
        .Param("offset", offset)
        .Param("dim1", "1")
        .Param("dim2", "-1")
        .Input(x);
  };
  diagonal("0").ExpectOutputs({Moved(x, {2, 3}, [](const Coordinates& at) {
    return Coordinates{at[0], at[1], at[1]};
  })});
  diagonal("2").ExpectOutputs({Moved(x, {2, 2}, [](const Coordinates& at) {
    return Coordinates{at[0], at[1], at[1] + 2};
  })});
  diagonal("-1").ExpectOutputs({Moved(x, {2, 2}, [](const Coordinates& at) {
    return Coordinates{at[0], at[1] + 1, at[1]};
  })});
  diagonal("-9").ExpectOutputs({Tensor(DType::kF32, {2, 0})});
  diagonal("2147483647").ExpectOutputs({Tensor(DType::kF32, {2, 0})});
  OperatorCase("aten::diagonal")
      .Param("dim2", "0")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "two axes");
}

TEST(AtenShape, ReadsByStrides) {
  const Tensor x = RangeTensor(DType::kF32, {3, 4});
  OperatorCase("torch.as_strided")
      .Param("size", "(2,3)")
      .Param("stride", "(4,2)")
      .Param("storage_offset", "1")
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({1, 3, 5, 5, 7, 9}, {2, 3})});
  OperatorCase("torch.as_strided")
      .Param("size", "(3,4)")
      .Param("stride", "(4,2)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "reach beyond");
  OperatorCase("torch.as_strided")
      .Param("size", "(2147483647,2)")
      .Param("stride", "(2147483647,2147483647)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "");
  OperatorCase("torch.as_strided")
      .Param("size", "(2)")
      .Param("stride", "(-1)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "at least 0");
}

TEST(AtenShape, KeepsTriangles) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {2, 3, 5});
    for (int64_t k : {-4, -1, 0, 2, 9}) {
      OperatorCase("aten::tril")
          .Param("diagonal", std::to_string(k))
          .Input(x)
          .ExpectOutputs({Moved(x, x.shape(), [&](const Coordinates& at) {
            return at[2] - at[1] <= k ? at : Coordinates{-1};
          })});
      OperatorCase("torch.triu")
          .Param("diagonal", std::to_string(k))
          .Input(x)
          .ExpectOutputs({Moved(x, x.shape(), [&](const Coordinates& at) {
            return at[2] - at[1] >= k ? at : Coordinates{-1};
          })});
    }
  }
  OperatorCase("aten::tril")
      .Input(RandomTensor(DType::kF32, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank of at least 2");
  OperatorCase("aten::triu")
      .Input(RandomTensor(DType::kF32, {0, 3}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 3})});
  OperatorCase("aten::triu")
      .Input(RangeTensor(DType::kF32, {2, 2}), "input")
      .Input(INT64_MAX, "diagonal")
      .ExpectOutputs({Tensor::Zeros(DType::kF32, {2, 2})});
}

TEST(AtenShape, NamesTheElementsOfTriangles) {
  OperatorCase("aten::tril_indices")
      .Param("row", "2")
      .Param("col", "3")
      .Param("offset", "1")
      .ExpectOutputs({Tensor::From<int64_t>({0, 0, 1, 1, 1, 0, 1, 0, 1, 2}, {2, 5})});
  OperatorCase("aten::triu_indices")
      .Param("row", "3")
      .Param("col", "2")
      .ExpectOutputs({Tensor::From<int64_t>({0, 0, 1, 0, 1, 1}, {2, 3})});
  OperatorCase("aten::triu_indices")
      .Param("row", "-1")
      .Param("col", "2")
      .ExpectError(ErrorCode::kInvalidArgument, "expected a matrix");
}

TEST(AtenShape, JoinsRaisedTensors) {
  const Tensor a = Tensor::From<float>({1, 2}, {2}), b = Tensor::From<float>({3, 4}, {2});
  const Value list = Value::List{a, b};
  OperatorCase("aten::hstack").Input(list).ExpectOutputs({Tensor::From<float>({1, 2, 3, 4}, {4})});
  OperatorCase("aten::vstack")
      .Input(list)
      .ExpectOutputs({Tensor::From<float>({1, 2, 3, 4}, {2, 2})});
  OperatorCase("aten::column_stack")
      .Input(list)
      .ExpectOutputs({Tensor::From<float>({1, 3, 2, 4}, {2, 2})});
  OperatorCase("aten::dstack")
      .Input(list)
      .ExpectOutputs({Tensor::From<float>({1, 3, 2, 4}, {1, 2, 2})});
  OperatorCase("aten::vstack")
      .Input(Value::List{a, RandomTensor(DType::kF32, {3})})
      .ExpectError(ErrorCode::kInvalidArgument, "do not join");
  OperatorCase("aten::cartesian_prod")
      .Input(list)
      .ExpectOutputs({Tensor::From<float>({1, 3, 1, 4, 2, 3, 2, 4}, {4, 2})});
  OperatorCase("aten::meshgrid")
      .Input(Value::List{RandomTensor(DType::kF32, {2, 2})})
      .ExpectError(ErrorCode::kInvalidArgument, "expected vectors");
  OperatorCase("aten::meshgrid")
      .Input(Value::List{})
      .ExpectError(ErrorCode::kInvalidArgument, "at least one tensor");
}

}  // namespace
}  // namespace oort::testing
