// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "layers/aten/aten_form.h"

namespace oort::testing {
namespace {

Tensor Order(const Tensor& x, int axis, bool descending) {
  Tensor y(DType::kI64, x.shape());
  const int64_t extent = x.shape()[axis], inner = x.shape().Product(axis + 1, x.rank());
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (i / inner % extent != 0) continue;
    std::vector<int64_t> order(static_cast<size_t>(extent));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double left = x.data<double>()[i + a * inner], right = x.data<double>()[i + b * inner];
      return descending ? left > right : left < right;
    });
    for (int64_t j = 0; j < extent; ++j) {
      y.data<int64_t>()[i + j * inner] = order[static_cast<size_t>(j)];
    }
  }
  return y;
}

TEST(Sort, SortsAlongAnyAxisAndDType) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8,
                      DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    // Few different values, so that there are ties.
    const Tensor x = RandomTensor(DType::kI64, {4, 5, 6}, 3, 0, 4).To(dtype);
    const Tensor wide = x.To(DType::kF64);
    for (int axis : {0, 1, 2}) {
      for (bool descending : {false, true}) {
        const std::vector<std::string> constants = {std::to_string(axis),
                                                    descending ? "True" : "False"};
        const Tensor order = Order(wide, axis, descending);
        ExpectNear(RunAten("aten::argsort", {x}, constants)[0], order);
        const std::vector<Tensor> both = RunAten("aten::sort", {x}, constants, 2);
        ExpectNear(both[1], order);
        Tensor sorted(DType::kF64, x.shape());
        const int64_t inner = x.shape().Product(axis + 1, 3), extent = x.shape()[axis];
        for (int64_t i = 0; i < x.elements(); ++i) {
          const int64_t first = i - i / inner % extent * inner;
          sorted.data<double>()[i] = wide.data<double>()[first + order.data<int64_t>()[i] * inner];
        }
        ExpectNear(both[0], sorted.To(dtype));
      }
    }
  }
}

TEST(Sort, NanIsTheLargest) {
  const Tensor x = Tensor::From<float>({1, NAN, -INFINITY, 3}, {4});
  ExpectNear(RunAten("aten::argsort", {x}, {"0", "False"})[0],
             Tensor::From<int64_t>({2, 0, 3, 1}, {4}));
  ExpectNear(RunAten("aten::argsort", {x}, {"-1", "True"})[0],
             Tensor::From<int64_t>({1, 3, 0, 2}, {4}));
}

TEST(Sort, WorksOnEdgeSizesAndRefusesWrongAxes) {
  ExpectNear(RunAten("aten::argsort", {Tensor::Scalar(3.0f)}, {"0", "False"})[0],
             Tensor::Scalar<int64_t>(0));
  ExpectNear(RunAten("aten::argsort", {Tensor(DType::kF32, {2, 0})}, {"1", "False"})[0],
             Tensor(DType::kI64, {2, 0}));
  OperatorCase("aten::argsort")
      .Param("dim", "2")
      .Input(RandomTensor(DType::kF32, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
}

}  // namespace
}  // namespace oort::testing
