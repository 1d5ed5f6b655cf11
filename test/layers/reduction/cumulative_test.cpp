// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

Tensor Expected(const Tensor& x, int axis, bool product) {
  Tensor y = x.Clone();
  if (x.elements() == 0 || x.rank() == 0) return y;
  const int64_t inner = x.shape().Product(axis + 1, x.rank());
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (i / inner % x.shape()[axis] == 0) continue;
    double& value = y.data<double>()[i];
    const double before = y.data<double>()[i - inner];
    value = product ? before * value : before + value;
  }
  return y;
}

void ExpectCumulative(const Tensor& x, int dim) {
  SCOPED_TRACE(x.ToString() + " along " + std::to_string(dim));
  for (bool product : {false, true}) {
    OperatorCase(product ? "torch.cumprod" : "torch.cumsum")
        .Param("dim", std::to_string(dim))
        .Input(x)
        .ExpectLike([&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{Expected(in[0], NormalizeAxis(dim, x.rank()), product)};
        });
  }
}

TEST(Cumulative, RunsAlongAnyAxis) {
  const Tensor x = RandomTensor(DType::kF32, {3, 5, 7, 2}, 3, -1.2, 1.2);
  for (int dim : {0, 1, 2, 3, -1, -4}) ExpectCumulative(x, dim);
  ExpectCumulative(RandomTensor(DType::kF32, {9}), 0);
  ExpectCumulative(RandomTensor(DType::kF32, {}), 0);
  ExpectCumulative(RandomTensor(DType::kF32, {}), -1);
  ExpectCumulative(Tensor(DType::kF32, {2, 0, 3}), 1);
  ExpectCumulative(Tensor(DType::kF32, {2, 0, 3}), 2);
}

TEST(Cumulative, IntegersGiveI64AndWrap) {
  for (DType dtype :
       {DType::kI8, DType::kU8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    const Tensor x = RandomTensor(dtype, {3, 4}, 3, -9, 9);
    const Tensor wide = x.To(DType::kF64);
    OperatorCase("torch.cumsum")
        .Param("dim", "1")
        .Input(x)
        .ExpectOutputs({Expected(wide, 1, false).To(DType::kI64)});
    OperatorCase("torch.cumprod")
        .Param("dim", "0")
        .Input(x)
        .ExpectOutputs({Expected(wide, 0, true).To(DType::kI64)});
  }
  OperatorCase("torch.cumsum")
      .Param("dim", "0")
      .Input(Tensor::From<int64_t>({INT64_MAX, 1, 1}, {3}))
      .ExpectOutputs({Tensor::From<int64_t>({INT64_MAX, INT64_MIN, INT64_MIN + 1}, {3})});
}

TEST(Cumulative, TakesComplexNumbersAndADType) {
  using C = std::complex<float>;
  const Tensor x = Tensor::From<C>({{1, 2}, {3, -1}}, {2});
  OperatorCase("torch.cumsum")
      .Param("dim", "0")
      .Input(x)
      .ExpectOutputs({Tensor::From<C>({{1, 2}, {4, 1}}, {2})});
  OperatorCase("torch.cumprod")
      .Param("dim", "0")
      .Input(x)
      .ExpectOutputs({Tensor::From<C>({{1, 2}, {5, 5}}, {2})});
  OperatorCase("torch.cumsum")
      .Param("dim", "0")
      .Param("dtype", "torch.int")
      .Input(Tensor::From<float>({1.5f, 2.5f}, {2}))
      .ExpectOutputs({Tensor::From<int32_t>({1, 3}, {2})});
}

TEST(Cumulative, NanStaysFromWhereItIs) {
  OperatorCase("torch.cumsum")
      .Param("dim", "0")
      .Input(Tensor::From<float>({1, NAN, 1}, {3}))
      .ExpectOutputs({Tensor::From<float>({1, NAN, NAN}, {3})});
}

TEST(Cumulative, LongSumsKeepTheirDigits) {
  const Tensor x = RandomTensor(DType::kF32, {1000003}, 3, 1, 2);
  OperatorCase("torch.cumsum")
      .Param("dim", "0")
      .Input(x)
      .ExpectOutputs({Expected(x.To(DType::kF64), 0, false).To(DType::kF32)}, {0, 1e-6});
}

TEST(Cumulative, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("torch.cumsum")
      .Param("dim", "2")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
  OperatorCase("torch.cumprod").Input(x).ExpectError(ErrorCode::kInvalidModel, "'dim'");
}

}  // namespace
}  // namespace oort::testing
