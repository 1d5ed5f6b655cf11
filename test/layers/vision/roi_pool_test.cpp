// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "roi_case.h"

namespace oort::testing {
namespace {

TEST(RoiPool, FindsTheLargestElement) {
  RoiCase{}
      .Custom("roi_pool")
      .Input(RoiImage4x4(1))
      .Input(RoiBoxes4x4())
      .ExpectOutputs(
          {Tensor::From<float>({11, 12, 15, 16, 16, 0, 0, 0, 11, 11, 11, 11, 16, 0, 0, 0},
                               {4, 1, 2, 2}),
           Tensor::From<int32_t>({10, 11, 14, 15, 15, -1, -1, -1, 10, 10, 10, 10, 15, -1, -1, -1},
                                 {4, 1, 2, 2})});
}

TEST(RoiPool, AveragesBinsInTheirOwnChannels) {
  const Tensor channels = Tensor::From<int32_t>({0, 1, 0, 1, 0, 1, 0, 1}, {4, 1, 1, 2});
  const Tensor x = RoiImage4x4(2), boxes = RoiBoxes4x4();
  const auto expect = [&](const std::string& name, int64_t samples,
                          std::initializer_list<float> values) {
    SCOPED_TRACE(name);
    RoiCase{1, 1, 2, samples, false}.Custom(name).Input(x).Input(boxes).ExpectOutputs(
        {Tensor::From<float>(values, {4, 1, 1, 2}), channels});
  };
  expect("ps_roi_pool", 0, {8, 25, 6, 0, 11, 27, 0, 0});
  expect("ps_roi_align", 2, {5.625f, 22.875f, 3.0625f, 0, 6.25f, 21.75f, 15.85f, 31.9f});
  // A box that is inside out has no samples at all: 0 / 0.
  expect("ps_roi_align", -1, {5.625f, 22.875f, 4.92f, 3.12f, kRoiNan, kRoiNan, 15.95f, 32});
}

TEST(RoiPool, TakesDoubles) {
  const std::vector<Tensor> got = RoiCase{}
                                      .Custom("roi_pool")
                                      .Input(RoiImage4x4(1).To(DType::kF64))
                                      .Input(RoiBoxes4x4().To(DType::kF64))
                                      .Run();
  ExpectNear(got[0].Rows(0, 1), Tensor::From<double>({11, 12, 15, 16}, {1, 1, 2, 2}));
}

}  // namespace
}  // namespace oort::testing
