// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kit/errors.h"
#include "kit/one_operator_graph.h"
#include "oort/kv_cache.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

Tensor RunPictureRows(const Tensor& input, const std::vector<PictureRow>* rows) {
  Operator op;
  op.type = "oort.PictureRows";
  Session session(RuntimeGraph::Build(testing::GraphOf(std::move(op), {"input"}), {}));
  RunOptions options;
  const SequenceBatch batch(
      {}, nullptr, nullptr, true,
      rows ? std::span<const PictureRow>(*rows) : std::span<const PictureRow>());
  if (rows != nullptr) options.state = &batch;
  return session.Forward({input}, options)[0];
}

TEST(PictureRows, StandInTheirPlaces) {
  const Tensor input = testing::RandomTensor(DType::kF32, {5, 7}, 1);
  const Tensor picture = testing::RandomTensor(DType::kF32, {2, 7}, 2);
  const std::vector<PictureRow> rows = {{1, picture.data<float>() + 7}, {4, picture.data<float>()}};
  const Tensor out = RunPictureRows(input, &rows);
  for (int64_t row = 0; row < 5; ++row) {
    const float* want = row == 1   ? picture.data<float>() + 7
                        : row == 4 ? picture.data<float>()
                                   : input.data<float>() + 7 * row;
    EXPECT_TRUE(std::equal(want, want + 7, out.data<float>() + 7 * row)) << row;
  }
}

TEST(PictureRows, LeavesRowsOfTokensAlone) {
  const Tensor input = testing::RandomTensor(DType::kF32, {3, 4}, 3);
  const std::vector<PictureRow> none;
  for (const auto* rows : {&none, static_cast<const std::vector<PictureRow>*>(nullptr)}) {
    EXPECT_TRUE(std::ranges::equal(RunPictureRows(input, rows).span<float>(), input.span<float>()));
  }
}

TEST(PictureRows, RefusesRowsThatAreNotThere) {
  const Tensor input = testing::RandomTensor(DType::kF32, {3, 4}, 4);
  for (const PictureRow& row :
       {PictureRow{3, input.data<float>()}, PictureRow{-1, input.data<float>()}, PictureRow{0}}) {
    const std::vector<PictureRow> rows = {row};
    testing::ExpectThrows([&] { RunPictureRows(input, &rows); }, ErrorCode::kInvalidArgument,
                          "rows of pictures below 3");
  }
  testing::ExpectThrows(
      [&] { RunPictureRows(testing::RandomTensor(DType::kF32, {4}, 5), nullptr); },
      ErrorCode::kInvalidArgument, "(tokens, elements)");
}

}  // namespace
}  // namespace oort
