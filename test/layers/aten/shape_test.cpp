// SPDX-License-Identifier: MIT
// Movements of elements that pnnx leaves as ATen operators.
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"
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

}  // namespace
}  // namespace oort::testing
