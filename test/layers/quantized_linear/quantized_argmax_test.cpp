// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "layers/collective/on_ranks.h"
#include "layers/quantized_linear/cpu/quantized_matrix.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::OperatorCase;
using testing::RandomTensor;

TEST(QuantizedArgmax, PicksTheRowOfTheLargestProduct) {
  const Tensor weight =
      Tensor::From<float>({1, 0, 0, /**/ 0, 2, 0, /**/ 0, 2, 0, /**/ -1, -1, 1}, {4, 3});
  const auto pick = [&] {
    return OperatorCase("oort.QuantizedArgmax")
        .Param("in_features", "3")
        .Param("out_features", "4")
        .Attribute("weight", weight);
  };
  pick()
      .Input(Tensor::From<float>({5, 1, 0, /**/ 0, 1, 0, /**/ -1, -1, 3}, {3, 1, 3}))
      .ExpectOutputs({Tensor::From<int32_t>({0, 1, 3}, {3, 1})});
  pick().Input(Tensor(DType::kF32, {0, 3})).ExpectOutputs({Tensor(DType::kI32, {0})});
  pick()
      .Input(Tensor(DType::kF32, {2, 4}))
      .ExpectError(ErrorCode::kInvalidArgument, "last axis is 3");
}

/// A head of 8 bits, of which row `row` has the weight `weight` and all others 0.
testing::RankCase PartOfHead(int64_t row, int8_t weight) {
  constexpr int64_t kRows = 32, kColumns = 64;
  Tensor data(DType::kI8, {kRows, kColumns}), scale(DType::kF32, {kRows, kColumns / 32});
  std::fill_n(data.data<int8_t>(), kRows * kColumns, int8_t{0});
  std::fill_n(data.data<int8_t>() + row * kColumns, kColumns, weight);
  std::fill_n(scale.data<float>(), scale.elements(), 1.0f);
  testing::RankCase rank;
  rank.op.type = "oort.QuantizedArgmax";
  rank.op.params["in_features"] = Parameter::FromValue(Value(kColumns));
  rank.op.params["out_features"] = Parameter::FromValue(Value(kRows));
  rank.op.params["format"] = Parameter("int8");
  rank.op.params["precision"] = Parameter("bf16");
  rank.op.attributes["weight"] = data;
  rank.op.attributes["scale"] = scale;
  rank.inputs = {Tensor(DType::kF32, {1, kColumns})};
  std::fill_n(rank.inputs[0].data<float>(), kColumns, 1.0f);
  rank.unread = 1;  // the product
  return rank;
}

// Else it would look at all bits of what another rank has better for sure.
TEST(QuantizedArgmax, RanksLeaveOutWhatOthersHaveBetter) {
  const bool coarse = QuantizedDotKernelsFor(SupportedIsas().back()) != nullptr;
  const auto picked = testing::RunOnRanks({PartOfHead(5, 127), PartOfHead(7, 10)});
  for (const auto& rank : picked) ASSERT_EQ(rank.error, "");
  EXPECT_EQ(picked[0].output.data<int32_t>()[0], 5);
  EXPECT_EQ(picked[1].output.data<int32_t>()[0], coarse ? -1 : 7);
}

}  // namespace
}  // namespace oort
