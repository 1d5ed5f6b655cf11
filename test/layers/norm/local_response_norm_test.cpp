// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

void ExpectLrn(const Tensor& x, int64_t size, double alpha, double beta, double k) {
  SCOPED_TRACE(x.ToString() + ", size " + std::to_string(size));
  const auto number = [](double value) { return Value(value).ToString(); };
  for (const char* type : {"nn.LocalResponseNorm", "F.local_response_norm"}) {
    OperatorCase(type)
        .Param("size", std::to_string(size))
        .Param("alpha", number(alpha))
        .Param("beta", number(beta))
        .Param("k", number(k))
        .Input(x)
        .ExpectLike([&](const std::vector<Tensor>& in) {
          const Shape& shape = in[0].shape();
          const int64_t channels = shape[1], inner = shape.Product(2, shape.rank());
          Tensor y(DType::kF64, shape);
          for (int64_t i = 0; i < y.elements(); ++i) {
            const int64_t c = i / inner % channels;
            double squares = 0;
            for (int64_t j = c - size / 2; j < c - size / 2 + size; ++j) {
              if (j < 0 || j >= channels) continue;
              const double value = in[0].data<double>()[i + (j - c) * inner];
              squares += value * value;
            }
            y.data<double>()[i] = in[0].data<double>()[i] /
                                  std::pow(k + alpha * squares / static_cast<double>(size), beta);
          }
          return std::vector<Tensor>{y};
        });
  }
}

TEST(LocalResponseNorm, LooksAtTheChannelsAround) {
  for (int64_t size : {1, 2, 3, 4, 5, 9}) {
    ExpectLrn(RandomTensor(DType::kF32, {2, 6, 5}), size, 0.5, 0.75, 1);
    ExpectLrn(RandomTensor(DType::kF32, {1, 7, 3, 4}), size, 0.1, 0.3, 0.9);
  }
  ExpectLrn(RandomTensor(DType::kF32, {2, 3, 2, 3, 4}), 3, 1, 0.75, 2);
  ExpectLrn(Tensor(DType::kF32, {0, 3, 4}), 3, 1, 0.75, 2);
}

TEST(LocalResponseNorm, MatchesTorch) {
  // F.local_response_norm(torch.ones(1, 4, 1), 3, alpha=3.)
  OperatorCase("F.local_response_norm")
      .Param("size", "3")
      .Param("alpha", "3.0")
      .Input(Tensor::From<float>({1, 1, 1, 1}, {1, 4, 1}))
      .ExpectOutputs(
          {Tensor::From<float>({0.43869135f, 0.35355338f, 0.35355338f, 0.43869135f}, {1, 4, 1})});
}

TEST(LocalResponseNorm, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {1, 3, 4});
  OperatorCase("F.local_response_norm")
      .Param("size", "0")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "size=0");
  OperatorCase("F.local_response_norm")
      .Param("size", "3")
      .Input(RandomTensor(DType::kF32, {3, 4}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank 3 or more");
  OperatorCase("F.local_response_norm")
      .Param("size", "3")
      .Input(Tensor(DType::kI32, {1, 3, 4}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype i32");
}

}  // namespace
}  // namespace oort::testing
