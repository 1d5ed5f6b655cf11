// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "oort/testing.h"

namespace oort::testing {
namespace {

Tensor AffinePoints(const Tensor& theta, const Shape& size, bool align) {
  const int axes = size.rank() - 2;
  Shape shape = size;
  shape.Erase(1);
  shape.Append(axes);
  Tensor points(DType::kF64, shape);
  const int64_t pixels = size.Product(2, size.rank());
  for (int64_t i = 0; i < points.elements(); ++i) {
    const int64_t image = i / (pixels * axes);
    const double* row = theta.data<double>() + (image * axes + i % axes) * (axes + 1);
    int64_t rest = i / axes % pixels;
    double sum = row[axes];
    for (int a = 0; a < axes; ++a) {  // x first
      const int64_t extent = size[axes + 1 - a], at = rest % extent;
      const double edge = extent == 1 ? 0 : align ? 1 : 1 - 1 / static_cast<double>(extent);
      const double unit =
          extent == 1 ? 0 : 2 * static_cast<double>(at) / static_cast<double>(extent - 1) - 1;
      sum += row[a] * unit * edge;
      rest /= extent;
    }
    points.data<double>()[i] = sum;
  }
  return points;
}

TEST(AffineGrid, MapsEveryPoint) {
  for (bool align : {false, true}) {
    for (const Shape& size : {Shape{2, 3, 4, 5}, Shape{1, 1, 1, 33}, Shape{3, 2, 1, 1},
                              Shape{2, 1, 3, 4, 5}, Shape{1, 2, 1, 6, 1}}) {
      SCOPED_TRACE(size.ToString());
      const int axes = size.rank() - 2;
      OperatorCase("F.affine_grid")
          .Param("size", size.ToString())
          .Param("align_corners", align ? "True" : "False")
          .Input(RandomTensor(DType::kF32, {size[0], axes, axes + 1}))
          .ExpectLike([&](const std::vector<Tensor>& in) {
            return std::vector<Tensor>{AffinePoints(in[0], size, align)};
          });
    }
  }
}

TEST(AffineGrid, TakesItsSizeFromTheGraph) {
  const Tensor theta = RandomTensor(DType::kF64, {1, 2, 3});
  OperatorCase("F.affine_grid")
      .Input(theta, "theta")
      .Input(Value(Value::List{Value(1), Value(3), Value(4), Value(5)}), "size")
      .ExpectOutputs({AffinePoints(theta, {1, 3, 4, 5}, false)});
}

TEST(AffineGrid, RefusesWhatIsWrong) {
  const auto expect = [](const std::string& size, const Shape& theta, std::string_view message) {
    OperatorCase("F.affine_grid")
        .Param("size", size)
        .Input(Tensor::Zeros(DType::kF32, theta))
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect("(1,3,4)", {1, 2, 3}, "size of 4 or 5 numbers");
  expect("(1,1,1,1,1,1,1,1,1)", {1, 2, 3}, "size of 4 or 5 numbers");
  expect("(1,3,4,0)", {1, 2, 3}, "size above zero");
  expect("(1,3,4,-5)", {1, 2, 3}, "size above zero");
  expect("(2,3,4,5)", {1, 2, 3}, "theta of shape (2,2,3)");
  expect("(1,3,4,5)", {1, 3, 4}, "theta of shape (1,2,3)");
  expect("(1,3,4,5,6)", {1, 2, 3}, "theta of shape (1,3,4)");
  expect("(1,1,2147483647,2147483647,2147483647)", {1, 3, 4}, "too many elements");
}

}  // namespace
}  // namespace oort::testing
