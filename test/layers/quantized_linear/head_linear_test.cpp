// SPDX-License-Identifier: MIT
// oort.HeadLinear against sums in f64.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort {
namespace {

using testing::OperatorCase;
using testing::RandomTensor;

constexpr int64_t kLinearHeads = 3, kHeadIn = 20, kHeadOut = 17;

OperatorCase HeadCase(const Tensor& weight) {
  OperatorCase op("oort.HeadLinear");
  op.Param("heads", std::to_string(kLinearHeads)).Param("in_features", std::to_string(kHeadIn));
  op.Param("out_features", std::to_string(kHeadOut)).Attribute("weight", weight);
  return op;
}

/// What each head makes of the first kHeadIn of its elements, and its tail behind that.
Tensor HeadsOf(const Tensor& weight, const Tensor& x, const Tensor& tail) {
  const int64_t stride = x.dim(1) / kLinearHeads,
                more = tail.defined() ? tail.dim(1) / kLinearHeads : 0;
  Tensor y(DType::kF32, {x.dim(0), kLinearHeads * (kHeadOut + more)});
  float* to = y.data<float>();
  for (int64_t row = 0; row < x.dim(0); ++row) {
    for (int64_t head = 0; head < kLinearHeads; ++head) {
      for (int64_t o = 0; o < kHeadOut; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < kHeadIn; ++i) {
          sum += static_cast<double>(weight.data<float>()[(head * kHeadOut + o) * kHeadIn + i]) *
                 x.data<float>()[row * x.dim(1) + head * stride + i];
        }
        *to++ = static_cast<float>(sum);
      }
      for (int64_t i = 0; i < more; ++i) {
        *to++ = tail.data<float>()[(row * kLinearHeads + head) * more + i];
      }
    }
  }
  return y;
}

TEST(HeadLinear, EachHeadHasAWeightOfItsOwn) {
  const Tensor weight = RandomTensor(DType::kF32, {kLinearHeads * kHeadOut, kHeadIn}, 1);
  for (const int64_t rows : {1, 2, 9, 70}) {
    for (const int64_t more : {0, 5}) {
      const Tensor x = RandomTensor(DType::kF32, {rows, kLinearHeads * (kHeadIn + more)}, 2);
      HeadCase(weight).Input(x).ExpectOutputs({HeadsOf(weight, x, {})}, {1e-4, 1e-4});
      const Tensor tail = RandomTensor(DType::kF32, {rows, kLinearHeads * 4}, 3);
      HeadCase(weight).Input(x).Input(tail).ExpectOutputs({HeadsOf(weight, x, tail)}, {1e-4, 1e-4});
    }
  }
}

TEST(HeadLinear, SaysWhatDoesNotFit) {
  const Tensor weight = RandomTensor(DType::kF32, {kLinearHeads * kHeadOut, kHeadIn}, 1);
  const Tensor x = RandomTensor(DType::kF32, {2, kLinearHeads * kHeadIn}, 2);
  HeadCase(weight)
      .Input(RandomTensor(DType::kF32, {2, kLinearHeads * kHeadIn + 1}, 2))
      .ExpectError(ErrorCode::kInvalidArgument, "3 heads of at least 20");
  HeadCase(weight)
      .Input(x)
      .Input(RandomTensor(DType::kF32, {3, kLinearHeads}, 2))
      .ExpectError(ErrorCode::kInvalidArgument, "a tail of 2 tokens and 3 heads");
  EXPECT_THROW(HeadCase(RandomTensor(DType::kF32, {kHeadOut, kHeadIn}, 1)).Input(x).Run(), Error);
}

}  // namespace
}  // namespace oort
