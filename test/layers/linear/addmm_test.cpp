// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "product_reference.h"

namespace oort::testing {
namespace {

/// beta * input + alpha * a @ b with an input of the shape of the result.
void CheckAddmm(const char* type, const char* a_name, const char* b_name, Shape input, Shape a,
                Shape b, double alpha, double beta) {
  SCOPED_TRACE(std::string(type) + " " + input.ToString());
  const int64_t m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
  Shape output = a;
  output[output.rank() - 1] = n;
  OperatorCase(type)
      .Param("alpha", std::to_string(alpha))
      .Param("beta", std::to_string(beta))
      .Input(RandomTensor(DType::kF32, input, 1), "input")
      .Input(RandomTensor(DType::kF32, a, 2), a_name)
      .Input(RandomTensor(DType::kF32, b, 3), b_name)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        Tensor y = ProductReference(in[1], in[2], output, m, n, k);
        for (int64_t i = 0; i < y.elements(); ++i) {
          const int64_t column = i % n, row = i / n % m;
          int64_t at = 0;  // the only shapes used below: (n), (m,1), (1,n), () and the whole
          if (in[0].elements() == y.elements()) {
            at = i;
          } else if (in[0].rank() > 0) {
            at = in[0].dim(-1) == n ? column : in[0].elements() > 1 ? row : 0;
          }
          y.data<double>()[i] = alpha * y.data<double>()[i] + beta * in[0].data<double>()[at];
        }
        return std::vector<Tensor>{y};
      });
}

TEST(Addmm, AddsAScaledProduct) {
  for (auto [alpha, beta] : {std::pair{1.0, 1.0}, {0.75, 1.5}, {1.0, 0.5}, {2.0, 0.0}}) {
    for (Shape input : {Shape{6}, Shape{4, 6}, Shape{4, 1}, Shape{1, 6}, Shape{}}) {
      CheckAddmm("torch.addmm", "mat1", "mat2", input, {4, 5}, {5, 6}, alpha, beta);
    }
    CheckAddmm("torch.baddbmm", "batch1", "batch2", {3, 4, 6}, {3, 4, 5}, {3, 5, 6}, alpha, beta);
    CheckAddmm("torch.baddbmm", "batch1", "batch2", {4, 1}, {3, 4, 5}, {3, 5, 6}, alpha, beta);
  }
  CheckAddmm("torch.addmm", "mat1", "mat2", {6}, {0, 5}, {5, 6}, 2, 3);
}

TEST(Addmm, IgnoresTheInputWhereBetaIsZero) {
  OperatorCase("torch.addmm")
      .Param("beta", "0")
      .Input(Tensor::From<float>({NAN, NAN}, {2}), "input")
      .Input(Tensor::From<float>({1, 2}, {1, 2}), "mat1")
      .Input(Tensor::From<float>({1, 2, 3, 4}, {2, 2}), "mat2")
      .ExpectOutputs({Tensor::From<float>({7, 10}, {1, 2})});
}

TEST(Addmm, RefusesWhatDoesNotFit) {
  const auto addmm = [](Shape input, Shape a, Shape b) {
    return OperatorCase("torch.addmm")
        .Input(RandomTensor(DType::kF32, input), "input")
        .Input(RandomTensor(DType::kF32, a), "mat1")
        .Input(RandomTensor(DType::kF32, b), "mat2");
  };
  addmm({3}, {2, 4}, {4, 5}).ExpectError(ErrorCode::kInvalidArgument, "");
  addmm({7, 2, 5}, {2, 4}, {4, 5}).ExpectError(ErrorCode::kInvalidArgument, "broadcasts to (2,5)");
  addmm({5}, {2, 4}, {3, 5}).ExpectError(ErrorCode::kInvalidArgument, "cannot multiply");
  addmm({5}, {1, 2, 4}, {4, 5}).ExpectError(ErrorCode::kInvalidArgument, "rank 2");
}

}  // namespace
}  // namespace oort::testing
