// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"
#include "norm_reference.h"

namespace oort::testing {
namespace {

/// Statistics by sample and channel; `axis` is that of the channels.
std::vector<Tensor> Expected(const Tensor& x, int axis, const Tensor& weight, const Tensor& bias) {
  const int64_t plane = x.shape().Product(axis + 1, x.rank());
  const auto channel = [shape = x.shape(), axis](int64_t i) { return ChannelOf(shape, i, axis); };
  return {Normalized(
      x, 1e-5, [plane](int64_t i) { return i / plane; }, ByIndex(weight, channel),
      ByIndex(bias, channel))};
}

TEST(InstanceNorm, NormalizesEachPlane) {
  const Tensor weight = RandomTensor(DType::kF32, {3}, 3), bias = RandomTensor(DType::kF32, {3}, 4);
  const Shape shapes[] = {{2, 3, 17}, {2, 3, 5, 7}, {2, 3, 2, 3, 4}};
  for (int rank = 1; rank <= 3; ++rank) {
    const Tensor x = RandomTensor(DType::kF32, shapes[rank - 1]);
    OperatorCase("nn.InstanceNorm" + std::to_string(rank) + "d")
        .Param("num_features", "3")
        .Param("affine", "True")
        .Param("track_running_stats", "False")
        .Attribute("weight", weight)
        .Attribute("bias", bias)
        .Input(x)
        .ExpectLike(
            [&](const std::vector<Tensor>& in) { return Expected(in[0], 1, weight, bias); });
    // Without a batch axis.
    OperatorCase("nn.InstanceNorm" + std::to_string(rank) + "d")
        .Attribute("weight", weight)
        .Attribute("bias", bias)
        .Input(x.Rows(0, 1).Reshaped(Shape(x.shape().dims().subspan(1))))
        .ExpectLike(
            [&](const std::vector<Tensor>& in) { return Expected(in[0], 0, weight, bias); });
  }
}

TEST(InstanceNorm, TheFunctionIgnoresStoredStatistics) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 5, 7});
  const Tensor mean = RandomTensor(DType::kF32, {3}, 5), var = RandomTensor(DType::kF32, {3}, 6);
  OperatorCase("F.instance_norm")
      .Input(x, "input")
      .Input(mean, "running_mean")
      .Input(var, "running_var")
      .Param("weight", "None")
      .Param("bias", "None")
      .ExpectLike([](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{Normalized(in[0], 1e-5, [](int64_t i) { return i / 35; })};
      });
}

TEST(InstanceNorm, TheModuleUsesStoredStatistics) {
  const Tensor mean = Tensor::From<float>({1, 2}, {2}), var = Tensor::From<float>({4, 9}, {2});
  OperatorCase("nn.InstanceNorm1d")
      .Param("eps", "0.0")
      .Param("track_running_stats", "True")
      .Attribute("running_mean", mean)
      .Attribute("running_var", var)
      .Attribute("weight", Tensor::From<float>({1, 3}, {2}))
      .Attribute("bias", Tensor::From<float>({0, 10}, {2}))
      .Input(Tensor::From<float>({3, 5, 5, 8}, {1, 2, 2}))
      .ExpectOutputs({Tensor::From<float>({1, 2, 13, 16}, {1, 2, 2})});
}

TEST(InstanceNorm, LeavesNothingAsItIs) {
  for (const Shape& shape : {Shape{1, 0, 3, 2}, Shape{0, 3, 4, 5}}) {
    const Tensor x(DType::kF32, shape);
    OperatorCase("nn.InstanceNorm2d").Input(x).ExpectOutputs({x});
  }
}

TEST(InstanceNorm, TakesAtensForm) {
  const Tensor x = Tensor::From<float>({3, 5, 5, 8}, {1, 2, 2});
  const Tensor weight = Tensor::From<float>({1, 3}, {2}), bias = Tensor::From<float>({0, 10}, {2});
  const Tensor mean = Tensor::From<float>({1, 2}, {2}), var = Tensor::From<float>({4, 9}, {2});
  const auto run = [&](const char* use_input_stats) {
    return RunAten("aten::instance_norm", {x, weight, bias, mean, var},
                   {use_input_stats, "0.1", "0.0", "True"})[0];
  };
  ExpectNear(run("False"), Tensor::From<float>({1, 2, 13, 16}, {1, 2, 2}));
  ExpectNear(run("True"), Tensor::From<float>({-1, 1, 7, 13}, {1, 2, 2}));
}

TEST(InstanceNorm, RefusesWhatDoesNotFit) {
  const auto expect = [](const std::string& type, const Tensor& x, std::string_view message) {
    OperatorCase(type)
        .Attribute("weight", RandomTensor(DType::kF32, {3}))
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect("nn.InstanceNorm2d", Tensor(DType::kF32, {3, 4}), "expected an input of rank 3 or 4");
  expect("nn.InstanceNorm1d", Tensor(DType::kF32, {1, 3, 1}), "more than one element");
  expect("nn.InstanceNorm1d", Tensor(DType::kF32, {1, 4, 5}), "expected 'weight' of shape (4)");
  expect("nn.InstanceNorm1d", Tensor(DType::kI32, {1, 3, 5}), "has dtype i32");
}

}  // namespace
}  // namespace oort::testing
