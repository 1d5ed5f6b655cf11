// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "pooling_reference.h"

namespace oort::testing {
namespace {

/// As torch defines it: the mean of x^p times the size of the kernel, then the root.
void ExpectLp(const Tensor& x, const PoolSpec& spec, double p, const std::string& p_text) {
  SCOPED_TRACE("kernel " + PoolSpec::Text(spec.kernel) + ", p " + p_text);
  double elements = 1;
  for (int64_t extent : spec.kernel) elements *= static_cast<double>(extent);
  for (const char* prefix : {"F.lp_pool", "nn.LPPool"}) {
    OperatorCase(prefix + std::to_string(spec.rank()) + "d")
        .Param("norm_type", p_text)
        .Param("kernel_size", PoolSpec::Text(spec.kernel))
        .Param("stride", PoolSpec::Text(spec.stride))
        .Param("ceil_mode", spec.ceil_mode ? "True" : "False")
        .Input(x)
        .ExpectLike([&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{Pooled<double>(in[0], spec, [&](const PoolWindow& window) {
            double sum = 0;
            for (double value : window.values) sum += std::pow(value, p);
            return std::pow(sum / static_cast<double>(window.values.size()) * elements, 1 / p);
          })};
        });
  }
}

TEST(LpPool, TakesAnyWindowAndPower) {
  const Shape shapes[] = {{3, 31}, {2, 12, 19}, {1, 2, 7, 9, 11}};
  for (int rank = 1; rank <= 3; ++rank) {
    const Tensor x = RandomTensor(DType::kF32, shapes[rank - 1], 7, 0.1, 2);
    ExpectLp(x, Uniform(rank, 3, 3, 0), 2, "2");
    ExpectLp(x, Uniform(rank, 2, 2, 0, 1, true), 2, "2.0");
    ExpectLp(x, Uniform(rank, 3, 2, 0), 1, "1");
    ExpectLp(x, Uniform(rank, 3, 2, 0, 1, true), 1.2, "1.2");
    ExpectLp(x, Uniform(rank, 2, 1, 0), 3, "3");
  }
}

TEST(LpPool, MatchesTorch) {
  // F.lp_pool1d(torch.arange(5.)[None], 2, 2, ceil_mode=True): the last window is scaled up.
  OperatorCase("F.lp_pool1d")
      .Param("norm_type", "2")
      .Param("kernel_size", "2")
      .Param("stride", "None")
      .Param("ceil_mode", "True")
      .Input(RangeTensor(DType::kF32, {1, 5}))
      .ExpectOutputs({Tensor::From<float>({1.0f, 3.6055513f, 5.6568542f}, {1, 3})});
  // Negative sums keep their sign for p = 1 and have no root for p = 3.
  const Tensor x = Tensor::From<float>({-1, -2, -3, -4}, {1, 2, 2});
  const auto expect = [&](const std::string& p, float expected) {
    OperatorCase("F.lp_pool2d")
        .Param("norm_type", p)
        .Param("kernel_size", "2")
        .Input(x)
        .ExpectOutputs({Tensor::From<float>({expected}, {1, 1, 1})});
  };
  expect("1.0", -10);
  expect("3.0", NAN);
}

TEST(LpPool, RefusesWhatIsWrong) {
  const auto expect = [](const std::string& p, const Tensor& x, std::string_view message) {
    OperatorCase("F.lp_pool1d")
        .Param("norm_type", p)
        .Param("kernel_size", "2")
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  const Tensor x = RandomTensor(DType::kF32, {1, 6});
  expect("0", x, "norm_type must be a number other than zero");
  expect("nan", x, "norm_type must be a number other than zero");
  expect("2", RandomTensor(DType::kF32, {6}), "expected an input of rank 2 or 3");
  expect("2", RandomTensor(DType::kF32, {1, 1}), "no window fits");
  expect("2", Tensor(DType::kI64, {1, 6}), "has dtype i64");
}

}  // namespace
}  // namespace oort::testing
