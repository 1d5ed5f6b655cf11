// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "norm_reference.h"

namespace oort::testing {
namespace {

void ExpectGroupNorm(const Tensor& x, int64_t groups) {
  SCOPED_TRACE(x.ToString() + " in " + std::to_string(groups) + " groups");
  const Shape shape = x.shape();
  const int64_t channels = shape[1], size = shape.Product(1, shape.rank()) / groups;
  const Tensor weight = RandomTensor(DType::kF32, {channels}, 3);
  const Tensor bias = RandomTensor(DType::kF32, {channels}, 4);
  const auto group = [size](int64_t i) { return i / size; };
  const auto channel = [&](int64_t i) { return ChannelOf(shape, i); };
  OperatorCase("nn.GroupNorm")
      .Param("num_groups", std::to_string(groups))
      .Param("num_channels", std::to_string(channels))
      .Param("affine", "True")
      .Param("eps", "1.000000e-5")
      .Attribute("weight", weight)
      .Attribute("bias", bias)
      .Input(x)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{
            Normalized(in[0], 1e-5, group, ByIndex(weight, channel), ByIndex(bias, channel))};
      });
  OperatorCase("F.group_norm")
      .Param("num_groups", std::to_string(groups))
      .Param("eps", "0.01")
      .Param("weight", "None")
      .Param("bias", "None")
      .Input(x, "input")
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{Normalized(in[0], 0.01, group)};
      });
}

TEST(GroupNorm, NormalizesGroupsOfChannels) {
  for (int64_t groups : {1, 2, 3, 6}) {
    ExpectGroupNorm(RandomTensor(DType::kF32, {2, 6, 5}), groups);
    ExpectGroupNorm(RandomTensor(DType::kF32, {1, 6, 5, 7}), groups);
    ExpectGroupNorm(RandomTensor(DType::kF32, {2, 6, 2, 3, 4}), groups);
  }
  ExpectGroupNorm(RandomTensor(DType::kF32, {3, 8}), 2);
}

TEST(GroupNorm, WorksOnEdgeLengths) {
  for (int64_t length : EdgeLengths()) {
    if (length > 0) ExpectGroupNorm(RandomTensor(DType::kF32, {2, 4, length}), 2);
  }
  ExpectGroupNorm(Tensor(DType::kF32, {0, 4, 3}), 2);
}

TEST(GroupNorm, RefusesWhatDoesNotFit) {
  const auto expect = [](const Tensor& x, const std::string& groups, ErrorCode code,
                         std::string_view message) {
    OperatorCase("nn.GroupNorm")
        .Param("num_groups", groups)
        .Attribute("weight", RandomTensor(DType::kF32, {6}))
        .Input(x)
        .ExpectError(code, message);
  };
  expect(Tensor(DType::kF32, {1, 6, 3}), "4", ErrorCode::kInvalidArgument,
         "do not divide into 4 groups");
  expect(Tensor(DType::kF32, {1, 6, 3}), "0", ErrorCode::kInvalidModel, "at least 1");
  expect(Tensor(DType::kF32, {1, 6, 3}), "-2", ErrorCode::kInvalidModel, "at least 1");
  expect(Tensor(DType::kF32, {6}), "1", ErrorCode::kInvalidArgument, "rank 2 or more");
  expect(Tensor(DType::kF32, {1, 4, 3}), "2", ErrorCode::kInvalidArgument,
         "expected 'weight' of shape (4), got (6)");
  expect(Tensor(DType::kBool, {1, 6, 3}), "2", ErrorCode::kInvalidArgument, "has dtype bool");
}

}  // namespace
}  // namespace oort::testing
