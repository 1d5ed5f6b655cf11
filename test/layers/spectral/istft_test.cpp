// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"
#include "stft_reference.h"

namespace oort::testing {
namespace {

TEST(SpectralIstft, IsTheInverse) {
  const Tensor window = RandomTensor(DType::kF32, {12}, 5, 0.3, 1);
  for (int64_t n_fft : {12, 15}) {
    for (bool normalized : {false, true}) {
      for (bool center : {true, false}) {
        const StftParams p{
            .n_fft = n_fft, .hop = 5, .win = 12, .center = center, .normalized = normalized};
        const Tensor x = RandomTensor(DType::kC64, {3, p.Bins(), 7});
        if (n_fft != p.win && !center) continue;  // no window reaches the first points
        const DftArray whole = IstftWhole(DftArray(x), p, &window, false);
        const int64_t begin = center ? n_fft / 2 : 0, all = whole.shape[1];
        for (int64_t length : {int64_t{0}, int64_t{9}, int64_t{30}}) {
          OperatorCase op("torch.istft");
          p.Write(op);
          op.Input(x, "input").Input(window, "window");
          if (length > 0) op.Param("length", std::to_string(length));
          const DftArray y = CutOut(whole, begin, length > 0 ? length : all - 2 * begin);
          op.ExpectOutputs({y.ToTensor(DType::kF32)}, kStftTolerance);
        }
      }
    }
  }
}

TEST(SpectralIstft, TakesAllFrequencies) {
  const StftParams p{.n_fft = 10, .hop = 3, .win = 10, .onesided = false};
  for (DType dtype : {DType::kC64, DType::kC128}) {
    const Tensor x = RandomTensor(dtype, {2, 10, 6});
    for (bool complex : {true, false}) {
      // A real signal comes from the first half of the frequencies only.
      const DftArray whole = IstftWhole(DftArray(x), p, nullptr, complex);
      const DType real = dtype == DType::kC64 ? DType::kF32 : DType::kF64;
      OperatorCase op("torch.istft");
      p.Write(op);
      op.Param("return_complex", complex ? "True" : "False").Input(x);
      op.ExpectOutputs({CutOut(whole, 5, 15).ToTensor(complex ? dtype : real)}, kStftTolerance);
    }
  }
}

TEST(SpectralIstft, EndsInZerosWhereNothingIs) {
  const StftParams p{.n_fft = 8, .hop = 2, .win = 8};
  const Tensor x = RandomTensor(DType::kC64, {1, 5, 6});
  OperatorCase op("torch.istft");
  p.Write(op);
  op.Param("length", "40").Input(x);
  const DftArray whole = IstftWhole(DftArray(x), p, nullptr, false);
  op.ExpectOutputs({CutOut(whole, 4, 40).ToTensor(DType::kF32)}, kStftTolerance);
}

TEST(SpectralIstft, AsTorchAnswers) {
  using C = std::complex<float>;
  OperatorCase("torch.istft")
      .Param("n_fft", "4")
      .Param("hop_length", "2")
      .Param("center", "False")
      .Input(Tensor::From<C>({{4, 0}, {2, 0}, {1, -1}, {0, 2}, {1, 0}, {-2, 0}}, {3, 2}), "input")
      .Input(Tensor::From<float>({1, 2, 2, 1}, {4}), "window")
      .ExpectOutputs({Tensor::From<float>({1.75f, 0.625f, 0.3f, 0.05f, 0, 2}, {6})});
}

TEST(SpectralIstft, LengthKnownAtRunTime) {
  const Tensor x = RandomTensor(DType::kC64, {2, 5, 6});
  const auto start = [&] {
    return OperatorCase("torch.istft").Param("n_fft", "8").Input(x, "input");
  };
  start().Input(Value(7), "length").ExpectOutputs(start().Param("length", "7").Run());
  ExpectNear(RunAten("aten::istft", {x},
                     {"8", "2", "8", "None", "True", "False", "None", "7", "False"})[0],
             start().Param("length", "7").Run()[0]);
}

}  // namespace
}  // namespace oort::testing
