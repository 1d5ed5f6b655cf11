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

/// The options of a new tensor: dtype (torch's number or None), layout, device, pin_memory.
Tensor RunSignal(const std::string& type, std::vector<std::string> constants,
                 const std::string& dtype = "7") {
  for (const std::string& option :
       {dtype, std::string("None"), std::string("cpu"), std::string("False")}) {
    constants.push_back(option);
  }
  return RunAten(type, {}, constants)[0];
}

TEST(SpectralWindow, AsTorchAnswers) {
  const auto expect = [](const Tensor& got, std::initializer_list<double> want) {
    const auto count = static_cast<int64_t>(want.size());
    ExpectNear(got, Tensor::From<double>(want, {count}), {1e-12, 1e-12});
  };
  expect(RunSignal("aten::hann_window", {"5"}),
         {0, 0.3454915028125263, 0.9045084971874737, 0.9045084971874737, 0.3454915028125264});
  expect(RunSignal("aten::hann_window", {"5", "False"}), {0, 0.5, 1, 0.5, 0});
  expect(RunSignal("aten::hamming_window", {"4"}), {0.08, 0.54, 1, 0.54});
  expect(RunSignal("aten::hamming_window", {"4", "True"}), {0.08, 0.54, 1, 0.54});
  expect(RunSignal("aten::hamming_window", {"4", "True", "0.5"}), {0.04, 0.5, 0.96, 0.5});
  expect(RunSignal("aten::hamming_window", {"4", "True", "0.5", "0.25"}), {0.25, 0.5, 0.75, 0.5});
  expect(RunSignal("aten::blackman_window", {"4"}), {0, 0.34, 1, 0.34});
  expect(RunSignal("aten::bartlett_window", {"5"}), {0, 0.4, 0.8, 0.8, 0.4});
  expect(RunSignal("aten::kaiser_window", {"4"}),
         {5.2773441320097665e-05, 0.2156727447589671, 1, 0.2156727447589671});
  expect(RunSignal("aten::kaiser_window", {"4", "False", "8.0"}),
         {0.002338830512733327, 0.6524786744624014, 0.6524786744624014, 0.002338830512733327});
  for (const char* type : {"aten::hann_window", "aten::hamming_window", "aten::blackman_window",
                           "aten::bartlett_window", "aten::kaiser_window"}) {
    expect(RunSignal(type, {"1"}), {1});
    expect(RunSignal(type, {"1", "False"}), {1});
    expect(RunSignal(type, {"0"}), {});
    EXPECT_EQ(RunSignal(type, {"3"}, "None").ToString(), "(3)f32");
    EXPECT_EQ(RunSignal(type, {"3"}, "5").ToString(), "(3)f16");
    EXPECT_THROW(RunSignal(type, {"-1"}), Error);
    EXPECT_THROW(RunSignal(type, {"3"}, "4"), Error);  // i64
  }
}

TEST(SpectralWindow, Frequencies) {
  const auto expect = [](const Tensor& got, std::initializer_list<float> want) {
    const auto count = static_cast<int64_t>(want.size());
    ExpectNear(got, Tensor::From<float>(want, {count}));
  };
  expect(RunSignal("aten::fft_fftfreq", {"5", "0.5"}, "None"), {0, 0.4f, 0.8f, -0.8f, -0.4f});
  expect(RunSignal("aten::fft_fftfreq", {"4", "1.0"}, "None"), {0, 0.25f, -0.5f, -0.25f});
  expect(RunSignal("aten::fft_rfftfreq", {"5", "1.0"}, "None"), {0, 0.2f, 0.4f});
  expect(RunSignal("aten::fft_rfftfreq", {"4", "1.0"}, "None"), {0, 0.25f, 0.5f});
  expect(RunSignal("aten::fft_fftfreq", {"0", "1.0"}, "None"), {});
  expect(RunSignal("aten::fft_rfftfreq", {"0", "1.0"}, "None"), {NAN});
}

TEST(SpectralWindow, RefusesAnotherNumberOfInputs) {
  EXPECT_THROW(RunAten("aten::hann_window", {}, {"4", "None"}), Error);
  EXPECT_THROW(RunSignal("aten::hann_window", {"4", "True", "0.5"}), Error);
}

}  // namespace
}  // namespace oort::testing
