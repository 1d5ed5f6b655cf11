// SPDX-License-Identifier: MIT
// Parts of complex numbers, windows, frequencies and shifts.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "layers/aten/aten_form.h"

namespace oort::testing {
namespace {

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
