// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"
#include "stft_reference.h"

namespace oort::testing {
namespace {

void ExpectStft(const Tensor& x, const StftParams& p, const Tensor* window) {
  SCOPED_TRACE(x.ToString() + ", n_fft " + std::to_string(p.n_fft) + ", " + p.pad_mode);
  const bool wide = x.dtype() == DType::kF64 || x.dtype() == DType::kC128 ||
                    (window != nullptr && window->dtype() == DType::kF64);
  const Tensor y = StftExpected(DftArray(x), p, window).ToTensor(wide ? DType::kC128 : DType::kC64);
  OperatorCase op("torch.stft");
  p.Write(op);
  op.Param("pad_mode", p.pad_mode).Param("return_complex", "True").Input(x, "input");
  if (p.align) op.Param("align_to_window", "True");
  if (window != nullptr) op.Input(*window, "window");
  op.ExpectOutputs({y}, kStftTolerance);
}

TEST(SpectralStft, FramesOfAnySizeAndStep) {
  const Tensor x = RandomTensor(DType::kF32, {2, 75});
  for (int64_t n_fft : {1, 2, 5, 16, 17, 40, 53}) {
    for (int64_t hop : {1, 3, 16, 200}) {
      for (bool onesided : {true, false}) {
        const int64_t win = n_fft - n_fft / 3;
        const Tensor window = RandomTensor(DType::kF32, {win}, 5, 0.1, 1);
        StftParams p{.n_fft = n_fft, .hop = hop, .win = win, .onesided = onesided};
        ExpectStft(x, p, &window);
        p.center = false;
        p.normalized = true;
        ExpectStft(x, p, nullptr);
      }
    }
  }
}

TEST(SpectralStft, PadModesTypesAndAlignment) {
  const Tensor window = RandomTensor(DType::kF32, {10}, 5, 0.1, 1);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
    const Tensor x = RandomTensor(dtype, {3, 50});
    for (const char* mode : {"reflect", "constant", "replicate", "circular"}) {
      ExpectStft(x, {.win = 10, .pad_mode = mode, .onesided = !IsComplex(dtype)}, &window);
    }
    ExpectStft(x, {.win = 10, .center = false, .onesided = !IsComplex(dtype), .align = true},
               &window);
  }
  const Tensor x = RandomTensor(DType::kF32, {2, 50});
  const Tensor exact = window.To(DType::kF64), whole = RandomTensor(DType::kI64, {10}, 2, 1, 4);
  ExpectStft(x, {.win = 10}, &exact);
  ExpectStft(x, {.win = 10}, &whole);
}

TEST(SpectralStft, AsTorchAnswers) {
  using C = std::complex<float>;
  OperatorCase("torch.stft")
      .Param("n_fft", "4")
      .Param("hop_length", "2")
      .Param("win_length", "3")
      .Param("return_complex", "True")
      .Input(RangeTensor(DType::kF32, {8}, 1), "input")
      .Input(Tensor::From<float>({1, 2, 1}, {3}), "window")
      .ExpectOutputs({Tensor::From<C>({{8, 0},
                                       {8, 0},
                                       {16, 0},
                                       {24, 0},
                                       {30, 0},
                                       {2, -4},
                                       {-2, -4},
                                       {-2, -8},
                                       {-2, -12},
                                       {0, -16},
                                       {0, 0},
                                       {0, 0},
                                       {0, 0},
                                       {0, 0},
                                       {-2, 0}},
                                      {3, 5})});
}

TEST(SpectralStft, GivesPairsWhereAsked) {
  const Tensor x = RandomTensor(DType::kF32, {40});
  const auto run = [&](const char* complex) {
    return OperatorCase("torch.stft")
        .Param("n_fft", "16")
        .Param("return_complex", complex)
        .Input(x)
        .Run()[0];
  };
  const Tensor y = run("True"), pairs = run("False");
  EXPECT_EQ(pairs.ToString(), "(9,11,2)f32");
  ExpectNear(pairs, Tensor::BorrowConst(y.raw(), DType::kF32, {9, 11, 2}));
}

TEST(SpectralStft, LeftInAtenForm) {
  const Tensor x = RandomTensor(DType::kF32, {2, 40});
  const StftParams p{.n_fft = 8, .hop = 3, .win = 8, .center = false};
  const Tensor y = StftExpected(DftArray(x), p, nullptr).ToTensor(DType::kC64);
  ExpectNear(
      RunAten("aten::stft", {x}, {"8", "3", "8", "None", "False", "None", "True", "None"})[0], y,
      kStftTolerance);
}

/// torchaudio's, in terms of the transform.
TEST(SpectralSpectrogram, PowersAndNorms) {
  const Tensor x = RandomTensor(DType::kF32, {6, 40});
  const Tensor window = RandomTensor(DType::kF32, {12}, 5, 0.1, 1);
  double energy = 0;
  for (float value : window.span<float>()) energy += static_cast<double>(value) * value;
  for (const char* normalized : {"False", "True", "window", "frame_length"}) {
    for (const char* power : {"None", "1", "2", "0.5"}) {
      const bool by_window =
          normalized == std::string("True") || normalized == std::string("window");
      const bool by_length = normalized == std::string("frame_length");
      const StftParams p{.hop = 5, .win = 12, .normalized = by_length};
      DftArray y = StftExpected(DftArray(x), p, &window);
      if (by_window) y = y.Scaled(1 / std::sqrt(energy));
      const bool complex = power == std::string("None");
      for (DftNumber& value : y.values) {
        if (!complex) value = std::pow(std::abs(value), std::stod(power));
      }
      const Tensor expected = y.ToTensor(complex ? DType::kC64 : DType::kF32);
      OperatorCase("torchaudio.functional.spectrogram")
          .Param("n_fft", "16")
          .Param("hop_length", "5")
          .Param("win_length", "12")
          .Param("normalized", normalized)
          .Param("power", power)
          .Param("pad", "0")
          .Input(x.Reshaped({2, 3, 40}), "waveform")
          .Input(window, "window")
          .ExpectOutputs({expected.Reshaped({2, 3, 9, 9})}, {1e-4, 1e-4});
    }
  }
}

TEST(SpectralSpectrogram, ZerosAroundTheSignal) {
  Tensor x = RandomTensor(DType::kF32, {20}), padded(DType::kF32, {26});
  std::fill_n(padded.data<float>(), 26, 0.f);
  std::copy_n(x.data<float>(), 20, padded.data<float>() + 3);
  const auto run = [](const Tensor& signal, const char* pad) {
    return OperatorCase("torchaudio.functional.spectrogram")
        .Param("n_fft", "8")
        .Param("pad", pad)
        .Param("power", "2")
        .Input(signal, "waveform")
        .Input(RandomTensor(DType::kF32, {8}), "window")
        .Run()[0];
  };
  ExpectNear(run(x, "3"), run(padded, "0"));
}

TEST(SpectralSpectrogram, InverseInTermsOfIstft) {
  const Tensor x = RandomTensor(DType::kC64, {4, 9, 6});
  const Tensor window = RandomTensor(DType::kF32, {16}, 5, 0.3, 1);
  double energy = 0;
  for (float value : window.span<float>()) energy += static_cast<double>(value) * value;
  for (const char* normalized : {"False", "window", "frame_length"}) {
    const StftParams p{.normalized = normalized == std::string("frame_length")};
    DftArray whole = IstftWhole(DftArray(x), p, &window, false);
    if (normalized == std::string("window")) whole = whole.Scaled(std::sqrt(energy));
    const auto expect = [&](const char* length, const char* pad, int64_t begin, int64_t count) {
      OperatorCase("torchaudio.functional.inverse_spectrogram")
          .Param("n_fft", "16")
          .Param("hop_length", "4")
          .Param("win_length", "16")
          .Param("normalized", normalized)
          .Param("length", length)
          .Param("pad", pad)
          .Input(x.Reshaped({2, 2, 9, 6}), "spectrogram")
          .Input(window, "window")
          .ExpectOutputs(
              {CutOut(whole, begin, count).ToTensor(DType::kF32).Reshaped({2, 2, count})},
              kStftTolerance);
    };
    expect("None", "0", 8, 20);
    expect("None", "2", 8, 20);
    expect("11", "0", 8, 11);
    expect("11", "2", 10, 11);
  }
}

TEST(SpectralStft, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {20});
  const auto expect = [](const std::string& type, const Tensor& input,
                         const std::vector<std::pair<std::string, std::string>>& params,
                         const char* text) {
    OperatorCase op(type);
    op.Param("n_fft", "8").Input(input, "input");
    for (const auto& [key, value] : params) op.Param(key, value);
    op.ExpectError(ErrorCode::kInvalidArgument, text);
  };
  const std::string stft = "torch.stft", istft = "torch.istft";
  expect(stft, x, {{"hop_length", "0"}}, "hop_length of at least 1");
  expect(stft, x, {{"hop_length", "9223372036854775807"}}, "is not in [1, ");
  expect(stft, x, {{"win_length", "9"}}, "win_length of 1 to n_fft=8");
  expect(stft, x, {{"win_length", "0"}}, "win_length of 1 to n_fft=8");
  expect(stft, x, {{"n_fft", "3"}}, "hop_length of at least 1");
  expect(stft, x, {{"n_fft", "24"}, {"center", "False"}}, "24 points at least, got 20");
  expect(stft, x, {{"n_fft", "80"}}, "cannot pad axis 0");
  expect(stft, x, {{"align_to_window", "True"}}, "center=False");
  expect(stft, x.Reshaped({2, 2, 5}), {}, "rank 1 or 2");
  expect(stft, Tensor::Scalar(1.f), {}, "rank 1 or 2");
  expect(stft, x.To(DType::kC64), {{"onesided", "True"}}, "onesided=False");
  expect(stft, x.To(DType::kI32), {}, "dtype i32");
  OperatorCase(stft)
      .Param("n_fft", "2147483647")
      .Input(x)
      .ExpectError(ErrorCode::kUnsupported, "at most 16777216 points");
  OperatorCase(stft)
      .Param("n_fft", "8")
      .Input(x, "input")
      .Input(x, "window")
      .ExpectError(ErrorCode::kInvalidArgument, "window of win_length=8 numbers, got shape (20)");

  const Tensor y = RandomTensor(DType::kC64, {5, 6});
  expect(istft, y, {{"n_fft", "12"}}, "7 frequencies, got 5");
  expect(istft, y, {{"onesided", "False"}}, "8 frequencies, got 5");
  expect(istft, y, {{"return_complex", "True"}}, "the first half");
  expect(istft, y, {{"hop_length", "9"}}, "at most win_length=8");
  expect(istft, y, {{"length", "0"}}, "at least 1 point");
  expect(istft, y, {{"length", "-3"}}, "at least 1 point");
  expect(istft, y.Reshaped({5, 6}).Rows(0, 0), {}, "some of both");
  expect(istft, Tensor(DType::kC64, {5}), {}, "frequencies and frames");
  OperatorCase(istft)
      .Param("n_fft", "8")
      .Input(y, "input")
      .Input(Tensor::From<float>({0, 0, 0, 0, 0, 0, 0, 0}, {8}), "window")
      .ExpectError(ErrorCode::kInvalidArgument, "add up to more than 0");
  OperatorCase("torchaudio.functional.spectrogram")
      .Param("n_fft", "8")
      .Param("pad", "2147483647")
      .Input(x, "waveform")
      .ExpectError(ErrorCode::kInvalidModel, "pad=2147483647");
  OperatorCase("torchaudio.functional.spectrogram")
      .Param("n_fft", "8")
      .Param("normalized", "other")
      .Input(x, "waveform")
      .ExpectError(ErrorCode::kInvalidArgument, "normalized=other");
}

}  // namespace
}  // namespace oort::testing
