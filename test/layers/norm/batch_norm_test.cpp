// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "norm_reference.h"

namespace oort::testing {
namespace {

struct Stored {
  Tensor mean, variance, weight, bias;
  explicit Stored(int64_t channels)
      : mean(RandomTensor(DType::kF32, {channels}, 11)),
        variance(RandomTensor(DType::kF32, {channels}, 12, 0.1, 2)),
        weight(RandomTensor(DType::kF32, {channels}, 13)),
        bias(RandomTensor(DType::kF32, {channels}, 14)) {}
};

Tensor Expected(const Tensor& x, const Stored& stored, double eps, bool affine) {
  Tensor y(DType::kF64, x.shape());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t c = ChannelOf(x.shape(), i);
    const auto at = [c](const Tensor& t) { return static_cast<double>(t.data<float>()[c]); };
    const double normal =
        (x.data<double>()[i] - at(stored.mean)) / std::sqrt(at(stored.variance) + eps);
    y.data<double>()[i] = affine ? normal * at(stored.weight) + at(stored.bias) : normal;
  }
  return y;
}

void ExpectStored(const Tensor& x) {
  SCOPED_TRACE(x.ToString());
  const Stored stored(x.shape()[1]);
  const std::string type = "nn.BatchNorm" + std::to_string(std::max(1, x.rank() - 2)) + "d";
  OperatorCase(type)
      .Param("eps", "1.000000e-5")
      .Param("affine", "True")
      .Param("num_features", std::to_string(x.shape()[1]))
      .Attribute("running_mean", stored.mean)
      .Attribute("running_var", stored.variance)
      .Attribute("weight", stored.weight)
      .Attribute("bias", stored.bias)
      .Input(x)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{Expected(in[0], stored, 1e-5, true)};
      });
  OperatorCase(type)
      .Param("eps", "0.1")
      .Param("affine", "False")
      .Attribute("running_mean", stored.mean)
      .Attribute("running_var", stored.variance)
      .Input(x)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{Expected(in[0], stored, 0.1, false)};
      });
}

TEST(BatchNorm, UsesStoredStatistics) {
  for (const Shape& shape : {Shape{5, 11}, Shape{2, 3, 17}, Shape{2, 3, 5, 7}, Shape{1, 4, 3, 5, 7},
                             Shape{1, 11, 1}, Shape{3, 200, 9, 9}}) {
    ExpectStored(RandomTensor(DType::kF32, shape));
  }
  for (int64_t length : EdgeLengths()) {
    ExpectStored(RandomTensor(DType::kF32, {2, 3, length}));
    ExpectStored(RandomTensor(DType::kF32, {2, length}));
  }
}

TEST(BatchNorm, TheFunctionTakesStatisticsAsInputs) {
  const Tensor x = RandomTensor(DType::kF64, {2, 3, 4, 5});
  const Stored stored(3);
  OperatorCase("F.batch_norm")
      .Input(x, "input")
      .Input(stored.mean, "running_mean")
      .Input(stored.variance, "running_var")
      .Input(stored.weight, "weight")
      .Input(stored.bias, "bias")
      .Param("eps", "0.001")
      .ExpectOutputs({Expected(x, stored, 0.001, true)});
  OperatorCase("F.batch_norm")
      .Input(x, "input")
      .Constant(stored.mean, "running_mean")
      .Constant(stored.variance, "running_var")
      .Param("weight", "None")
      .Param("bias", "None")
      .ExpectOutputs({Expected(x, stored, 1e-5, false)});
}

TEST(BatchNorm, WithoutStatisticsItTakesThoseOfTheBatch) {
  for (const Shape& shape : {Shape{5, 4}, Shape{3, 4, 17}, Shape{2, 4, 5, 7}}) {
    const Tensor x = RandomTensor(DType::kF32, shape);
    const Stored stored(4);
    const auto channel = [&](int64_t i) { return ChannelOf(shape, i); };
    OperatorCase("F.batch_norm")
        .Input(x, "input")
        .Input(stored.weight, "weight")
        .Input(stored.bias, "bias")
        .Param("running_mean", "None")
        .Param("running_var", "None")
        .ExpectLike([&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{Normalized(
              in[0], 1e-5, channel, [&](int64_t i) { return in[1].data<double>()[channel(i)]; },
              [&](int64_t i) { return in[2].data<double>()[channel(i)]; })};
        });
    OperatorCase("F.batch_norm")
        .Input(x, "input")
        .Input(stored.mean, "running_mean")
        .Input(stored.variance, "running_var")
        .Param("training", "True")
        .ExpectLike([&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{Normalized(in[0], 1e-5, channel)};
        });
  }
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  const Tensor three = RandomTensor(DType::kF32, {3}, 1, 0.5, 1);
  const auto expect = [&](const std::string& type, const Tensor& x, std::string_view message) {
    OperatorCase(type)
        .Attribute("running_mean", three)
        .Attribute("running_var", three)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect("nn.BatchNorm2d", Tensor(DType::kF32, {3, 4, 4}), "expected an input of rank 4");
  expect("nn.BatchNorm1d", Tensor(DType::kF32, {3}), "expected an input of rank 2 or 3");
  expect("nn.BatchNorm2d", Tensor(DType::kF32, {1, 4, 4, 4}),
         "expected 'running_mean' of shape (4), got (3)");
  expect("nn.BatchNorm2d", Tensor(DType::kI32, {1, 3, 4, 4}), "has dtype i32");
  OperatorCase("nn.BatchNorm1d")
      .Attribute("running_mean", three)
      .Input(Tensor(DType::kF32, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "must both be there");
  OperatorCase("F.batch_norm")
      .Input(Tensor(DType::kF32, {1, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "more than one value a channel");
  OperatorCase("F.batch_norm")
      .Input(Tensor(DType::kF32, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected an input of rank 2 or more");
}

}  // namespace
}  // namespace oort::testing
