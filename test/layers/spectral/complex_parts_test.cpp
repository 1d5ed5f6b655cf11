// SPDX-License-Identifier: MIT
// Parts of complex numbers, windows, frequencies and shifts.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "layers/aten/aten_form.h"

namespace oort::testing {
namespace {

using SpectralC = std::complex<float>;
constexpr float kSpectralPi = std::numbers::pi_v<float>;

TEST(SpectralParts, Conjugates) {
  const Tensor z =
      Tensor::From<SpectralC>({{1, 2}, {-3, 4}, {0, -5}, {6, 0}, {7, 1}, {8, -2}}, {2, 3});
  const Tensor same =
      Tensor::From<SpectralC>({{1, -2}, {-3, -4}, {0, 5}, {6, 0}, {7, -1}, {8, 2}}, {2, 3});
  for (const char* type : {"torch.conj", "aten::conj", "aten::_conj", "aten::conj_physical"}) {
    OperatorCase(type).Input(z).ExpectOutputs({same});
    OperatorCase(type).Input(z.To(DType::kC128)).ExpectOutputs({same.To(DType::kC128)});
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kBool}) {
      const Tensor x = RandomTensor(dtype, {3, 5});
      OperatorCase(type).Input(x).ExpectOutputs({x});
    }
    OperatorCase(type)
        .Input(Tensor(DType::kC64, {0, 2}))
        .ExpectOutputs({Tensor(DType::kC64, {0, 2})});
  }
  const Tensor turned =
      Tensor::From<SpectralC>({{1, -2}, {6, 0}, {-3, -4}, {7, -1}, {0, 5}, {8, 2}}, {3, 2});
  for (const char* type : {"aten::mH", "aten::matrix_H", "aten::adjoint"}) {
    OperatorCase(type).Input(z).ExpectOutputs({turned});
    OperatorCase(type).Input(z.Reshaped({2, 1, 3})).ExpectOutputs({same.Reshaped({2, 3, 1})});
    OperatorCase(type)
        .Input(Tensor::From<float>({1, 2, 3, 4}, {2, 2}))
        .ExpectOutputs({Tensor::From<float>({1, 3, 2, 4}, {2, 2})});
    OperatorCase(type).Input(z.Reshaped({6})).ExpectError(ErrorCode::kInvalidArgument, "rank 2");
  }
  OperatorCase("aten::resolve_conj").Input(z).ExpectOutputs({z});
}

TEST(SpectralParts, Angles) {
  OperatorCase("aten::angle")
      .Input(
          Tensor::From<SpectralC>({{1, 1}, {-1, 0.f}, {-1, -0.f}, {0, 2}, {NAN, 1}, {0, 0}}, {6}))
      .ExpectOutputs({Tensor::From<float>(
          {kSpectralPi / 4, kSpectralPi, -kSpectralPi, kSpectralPi / 2, NAN, 0}, {6})});
  OperatorCase("aten::angle")
      .Input(Tensor::From<float>({-1, 0, -0.f, 2, NAN, -INFINITY}, {6}))
      .ExpectOutputs({Tensor::From<float>({kSpectralPi, 0, 0, 0, NAN, kSpectralPi}, {6})});
  OperatorCase("aten::angle")
      .Input(Tensor::From<int64_t>({-2, 0, 3}, {3}))
      .ExpectOutputs({Tensor::From<float>({kSpectralPi, 0, 0}, {3})});
  OperatorCase("aten::angle")
      .Input(Tensor::From<bool>({true, false}, {2}))
      .ExpectOutputs({Tensor::From<float>({0, 0}, {2})});
  OperatorCase("aten::angle")
      .Input(Tensor::From<double>({-1}, {1}))
      .ExpectOutputs({Tensor::From<double>({std::numbers::pi}, {1})});
}

TEST(SpectralParts, FromMagnitudesAndAngles) {
  OperatorCase("aten::polar")
      .Input(Tensor::From<float>({1, 2}, {2}))
      .Input(Tensor::From<float>({0, kSpectralPi / 2}, {2, 1}))
      .ExpectOutputs({Tensor::From<SpectralC>({{1, 0}, {2, 0}, {0, 1}, {0, 2}}, {2, 2})});
}

TEST(SpectralParts, Directions) {
  OperatorCase("aten::sgn")
      .Input(Tensor::From<SpectralC>({{3, 4}, {0, 0}, {0, -2}, {NAN, 0}}, {4}))
      .ExpectOutputs({Tensor::From<SpectralC>({{0.6f, 0.8f}, {0, 0}, {0, -1}, {NAN, NAN}}, {4})});
  OperatorCase("aten::sgn")
      .Input(Tensor::From<float>({-3, NAN, 0, 5}, {4}))
      .ExpectOutputs({Tensor::From<float>({-1, 0, 0, 1}, {4})});
  OperatorCase("aten::sgn")
      .Input(Tensor::From<int32_t>({-3, 0, 5}, {3}))
      .ExpectOutputs({Tensor::From<int32_t>({-1, 0, 1}, {3})});
}

TEST(SpectralParts, AtenNamesOfViews) {
  const Tensor pairs = RandomTensor(DType::kF32, {3, 2});
  const Tensor z = OperatorCase("aten::view_as_complex").Input(pairs).Run()[0];
  EXPECT_EQ(z.ToString(), "(3)c64");
  OperatorCase("aten::view_as_real").Input(z).ExpectOutputs({pairs});
}

TEST(SpectralShift, MovesZeroToTheMiddleAndBack) {
  const Tensor odd = RangeTensor(DType::kI64, {5}), even = RangeTensor(DType::kI64, {4});
  const auto run = [](const char* type, const Tensor& x, const char* dim) {
    return RunAten(type, {x}, {dim})[0];
  };
  ExpectNear(run("aten::fft_fftshift", odd, "None"), Tensor::From<int64_t>({3, 4, 0, 1, 2}, {5}));
  ExpectNear(run("aten::fft_ifftshift", odd, "None"), Tensor::From<int64_t>({2, 3, 4, 0, 1}, {5}));
  ExpectNear(run("aten::fft_fftshift", even, "None"), Tensor::From<int64_t>({2, 3, 0, 1}, {4}));
  ExpectNear(run("aten::fft_ifftshift", even, "[-1]"), Tensor::From<int64_t>({2, 3, 0, 1}, {4}));
  const Tensor plane = RangeTensor(DType::kF32, {2, 3});
  ExpectNear(run("aten::fft_fftshift", plane, "None"),
             Tensor::From<float>({5, 3, 4, 2, 0, 1}, {2, 3}));
  ExpectNear(run("aten::fft_ifftshift", plane, "[1]"),
             Tensor::From<float>({1, 2, 0, 4, 5, 3}, {2, 3}));
  EXPECT_THROW(run("aten::fft_fftshift", plane, "[2]"), Error);
  ExpectNear(run("aten::fft_fftshift", Tensor(DType::kF32, {0, 3}), "None"),
             Tensor(DType::kF32, {0, 3}));
}

}  // namespace
}  // namespace oort::testing
