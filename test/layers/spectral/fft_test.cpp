// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <thread>

#include "layers/aten/aten_form.h"
#include "spectral_reference.h"

namespace oort::testing {
namespace {

/// A member of the family: torch.fft.NAME, NAME2 and NAMEn.
struct FftMember {
  std::string name;
  bool real_input, real_output, inverse;
};

const FftMember kFftMembers[] = {{"fft", false, false, false}, {"ifft", false, false, true},
                                 {"rfft", true, false, false}, {"irfft", false, true, true},
                                 {"hfft", false, true, false}, {"ihfft", true, false, true}};

/// What one call is to give.
struct FftCall {
  FftMember member;
  std::vector<int64_t> dims;    // in torch's order; the last one may be halved
  std::vector<int64_t> points;  // of each
  std::string norm = "None";

  double Scale() const {
    double all = 1;
    for (int64_t n : points) all *= static_cast<double>(n);
    if (norm == "ortho") return 1 / std::sqrt(all);
    return (norm == "forward") != member.inverse ? 1 / all : 1;
  }

  Tensor Expected(const Tensor& x) const {
    const int sign = member.inverse ? 1 : -1;
    DftArray y(x);
    for (size_t i = 0; i + 1 < dims.size(); ++i) y = Dft(y, Axis(x, i), points[i], sign);
    const int last = Axis(x, dims.size() - 1);
    const int64_t n = points.back();
    y = member.real_output  ? DftOfHalf(y, last, n, sign)
        : member.real_input ? DftFirstHalf(y, last, n, sign)
                            : Dft(y, last, n, sign);
    const bool wide = x.dtype() == DType::kF64 || x.dtype() == DType::kC128;
    const DType real = wide ? DType::kF64 : DType::kF32;
    const DType complex = wide ? DType::kC128 : DType::kC64;
    return y.Scaled(Scale()).ToTensor(member.real_output ? real : complex);
  }

  /// The rounding of n additions, more or less in a random walk.
  Tolerance Allowed(const Tensor& x) const {
    double all = 1;
    for (int64_t n : points) all *= static_cast<double>(n);
    const bool wide = x.dtype() == DType::kF64 || x.dtype() == DType::kC128;
    return {Scale() * std::sqrt(all) * (wide ? 2e-14 : 1e-5), wide ? 1e-12 : 1e-5};
  }

  int Axis(const Tensor& x, size_t i) const { return NormalizeAxis(dims[i], x.rank()); }
};

std::string FftList(const std::vector<int64_t>& numbers) { return Value::Ints(numbers).ToString(); }

void ExpectFft(const FftCall& call, const Tensor& x, OperatorCase op) {
  SCOPED_TRACE(call.member.name + " of " + x.ToString() + " along " + FftList(call.dims) + ", " +
               FftList(call.points) + " points, " + call.norm);
  op.Param("norm", call.norm).Input(x).ExpectOutputs({call.Expected(x)}, call.Allowed(x));
}

/// One axis, with n given.
void ExpectFftLine(const FftMember& member, const Tensor& x, int64_t dim, int64_t n,
                   const std::string& norm = "None") {
  ExpectFft({member, {dim}, {n}, norm}, x,
            OperatorCase("torch.fft." + member.name)
                .Param("n", std::to_string(n))
                .Param("dim", std::to_string(dim)));
}

/// The dtypes of a member's input: real ones are taken by all.
std::vector<DType> FftDTypes(const FftMember& member) {
  if (member.real_input) return {DType::kF32, DType::kF64};
  return {DType::kF32, DType::kF64, DType::kC64, DType::kC128};
}

TEST(SpectralFft, AnyLengthAnyMember) {
  // Each radix alone and with others, primes on both sides of the largest radix.
  for (int64_t n : {1,  2,  3,  4,  5,  6,  7,  8,  9,   11,  13,  15,  16,  17,
                    18, 23, 30, 32, 47, 49, 53, 64, 100, 101, 106, 121, 128, 210}) {
    for (const FftMember& member : kFftMembers) {
      for (DType dtype : FftDTypes(member)) {
        ExpectFftLine(member, RandomTensor(dtype, {5, n}), -1, n);
      }
    }
  }
}

TEST(SpectralFft, LinesOfAnyNumber) {
  for (int64_t lines : {1, 2, 3, 4, 7, 8, 9, 16, 33}) {
    for (const FftMember& member : kFftMembers) {
      for (int64_t n : {12, 15}) {
        ExpectFftLine(member, RandomTensor(DType::kF32, {lines, n}), 1, n);
        ExpectFftLine(member, RandomTensor(DType::kF32, {n, lines}), 0, n);
        ExpectFftLine(member, RandomTensor(DType::kF64, {2, n, lines}), 1, n);
      }
    }
  }
}

TEST(SpectralFft, LonelyLinesAreTakenAsAMatrix) {
  for (const FftMember& member : kFftMembers) {
    for (int64_t n : {600, 1024, 1031, 1061 * 2, 1155}) {
      ExpectFftLine(member, RandomTensor(DType::kF32, {1, n}), 1, n);
      ExpectFftLine(member, RandomTensor(DType::kF64, {n}), 0, n);
    }
  }
}

/// Zeros but for a few numbers here and there.
Tensor SparseTensor(DType dtype, const Shape& shape) {
  const Tensor numbers = RandomTensor(DType::kC128, {40}),
               places = RandomTensor(DType::kI64, {40}, 2, 0, 1e6);
  Tensor x(DType::kC128, shape);
  std::fill_n(x.data<DftNumber>(), x.elements(), DftNumber(0));
  for (int64_t i = 0; i < numbers.elements(); ++i) {
    x.data<DftNumber>()[places.data<int64_t>()[i] % x.elements()] = numbers.data<DftNumber>()[i];
  }
  return x.To(dtype);
}

TEST(SpectralFft, LongLines) {
  for (const FftMember& member : kFftMembers) {
    const DType dtype = member.real_input ? DType::kF32 : DType::kC64;
    ExpectFftLine(member, SparseTensor(dtype, {5, 9000}), 1, 18000);
    ExpectFftLine(member, SparseTensor(dtype, {3, 8209}), 1, 8209);  // a prime
    ExpectFftLine(member, SparseTensor(dtype, {2, 16421, 2}), 1, 16421);
  }
  ExpectFftLine(kFftMembers[0], SparseTensor(DType::kC128, {3, 65536}), 1, 65536);
}

TEST(SpectralFft, PointsAreCutOrFilledUp) {
  for (const FftMember& member : kFftMembers) {
    for (int64_t n : {1, 2, 5, 8, 9, 16, 17, 31, 60}) {
      for (DType dtype : FftDTypes(member)) {
        ExpectFftLine(member, RandomTensor(dtype, {3, 9, 5}), 1, n);
        ExpectFftLine(member, RandomTensor(dtype, {6, 10}), -1, n);
      }
    }
  }
}

TEST(SpectralFft, Norms) {
  for (const FftMember& member : kFftMembers) {
    for (const char* norm : {"None", "backward", "forward", "ortho"}) {
      ExpectFftLine(member, RandomTensor(DType::kF32, {3, 10}), 1, 10, norm);
      const Tensor x = RandomTensor(DType::kF64, {4, 6});
      ExpectFft({member, {0, 1}, {4, 6}, norm}, x,
                OperatorCase("torch.fft." + member.name + "2").Param("s", "(4,6)"));
    }
  }
}

TEST(SpectralFft, PointsAreTheExtentByDefault) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4, 6});
  for (const FftMember& member : kFftMembers) {
    const int64_t last = member.real_output ? 10 : 6;
    const std::string type = "torch.fft." + member.name;
    ExpectFft({member, {-1}, {last}}, x, OperatorCase(type));
    ExpectFft({member, {-2, -1}, {4, last}}, x, OperatorCase(type + "2"));
    ExpectFft({member, {0, 1, 2}, {3, 4, last}}, x, OperatorCase(type + "n"));
    ExpectFft({member, {1, 2}, {5, 8}}, x, OperatorCase(type + "n").Param("s", "(5,8)"));
    ExpectFft({member, {0, 2}, {3, last}}, x,
              OperatorCase(type + "n").Param("dim", "(0,2)").Param("s", "(-1,-1)"));
  }
}

TEST(SpectralFft, AxesInAnyOrderAndSize) {
  const Tensor real = RandomTensor(DType::kF32, {3, 4, 5, 2});
  const Tensor complex = RandomTensor(DType::kC64, {3, 4, 5, 2});
  struct {
    std::vector<int64_t> dims, points;
  } const cases[] = {{{0, 1}, {3, 4}}, {{2, 0}, {2, 7}},       {{-1, 1}, {5, 3}},
                     {{3}, {4}},       {{0, 2, 3}, {5, 2, 6}}, {{3, 1, 0, 2}, {1, 6, 2, 9}}};
  for (const auto& [dims, points] : cases) {
    for (const FftMember& member : kFftMembers) {
      for (const Tensor& x : {real, complex}) {
        if (member.real_input && IsComplex(x.dtype())) continue;
        ExpectFft({member, dims, points}, x,
                  OperatorCase("torch.fft." + member.name + "n")
                      .Param("dim", FftList(dims))
                      .Param("s", FftList(points)));
      }
    }
  }
}

TEST(SpectralFft, IntegersAndBoolsCountAsF32) {
  for (DType dtype :
       {DType::kI8, DType::kU8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    for (const FftMember& member : kFftMembers) {
      ExpectFftLine(member, RandomTensor(dtype, {3, 7}, 2, 0, 9), 1, 8);
    }
  }
}

TEST(SpectralFft, NoAxisMakesComplexNumbers) {
  OperatorCase("torch.fft.fftn")
      .Param("dim", "None")
      .Input(Tensor::Scalar(2.5f))
      .ExpectOutputs({Tensor::Scalar(std::complex<float>(2.5f, 0))});
}

TEST(SpectralFft, NothingFromNoLines) {
  OperatorCase("torch.fft.rfft")
      .Input(Tensor(DType::kF32, {0, 6}))
      .ExpectOutputs({Tensor(DType::kC64, {0, 4})});
  OperatorCase("torch.fft.irfftn")
      .Param("dim", "(1,2)")
      .Input(Tensor(DType::kC64, {0, 3, 4}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 3, 6})});
}

TEST(SpectralFft, NanStaysInItsLine) {
  for (const char* type : {"torch.fft.rfft", "torch.fft.fft"}) {
    Tensor x = RandomTensor(DType::kF32, {6, 16});
    x.data<float>()[2 * 16 + 3] = NAN;
    const Tensor y = OperatorCase(type).Input(x).Run()[0].To(DType::kC128);
    const int64_t points = y.shape()[1];
    for (int64_t i = 0; i < y.elements(); ++i) {
      EXPECT_EQ(std::isnan(y.data<DftNumber>()[i].real()), i / points == 2) << i;
    }
  }
}

TEST(SpectralFft, LeftInAtenForm) {
  const Tensor x = RandomTensor(DType::kF32, {3, 8});
  ExpectNear(RunAten("aten::fft_rfft", {x}, {"6", "0", "ortho"})[0], OperatorCase("torch.fft.rfft")
                                                                         .Param("n", "6")
                                                                         .Param("dim", "0")
                                                                         .Param("norm", "ortho")
                                                                         .Input(x)
                                                                         .Run()[0]);
  ExpectNear(RunAten("aten::fft_fftn", {x}, {"None", "[0]", "None"})[0],
             OperatorCase("torch.fft.fft").Param("dim", "0").Input(x).Run()[0]);
}

TEST(SpectralFft, PointsKnownAtRunTime) {
  const Tensor x = RandomTensor(DType::kF32, {3, 8});
  const FftCall call{kFftMembers[2], {1}, {11}};
  OperatorCase("torch.fft.rfft")
      .Input(x, "input")
      .Input(Value(11), "n")
      .ExpectOutputs({call.Expected(x)}, call.Allowed(x));
}

TEST(SpectralFft, PlansAreSharedBetweenThreads) {
  // More lengths than are kept, so that plans come and go.
  const auto run = [](int64_t start) {
    for (int64_t i = 0; i < 90; ++i) {
      const int64_t n = 10 + (start * 31 + i) % 90;
      const Tensor x = RandomTensor(DType::kC64, {2, n});
      const FftCall call{kFftMembers[0], {1}, {n}};
      ExpectNear(OperatorCase("torch.fft.fft").Input(x).Run()[0], call.Expected(x),
                 call.Allowed(x));
    }
  };
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t) threads.emplace_back(run, t);
  for (std::thread& thread : threads) thread.join();
}

TEST(SpectralFft, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4});
  const auto expect = [](OperatorCase op, ErrorCode code, const char* text) {
    op.ExpectError(code, text);
  };
  const auto invalid = ErrorCode::kInvalidArgument;
  expect(OperatorCase("torch.fft.fft").Param("n", "0").Input(x), invalid, "at least 1 point");
  expect(OperatorCase("torch.fft.fft").Param("n", "-1").Input(x), invalid, "at least 1 point");
  expect(OperatorCase("torch.fft.fft").Param("n", "2147483647").Input(x), ErrorCode::kUnsupported,
         "at most 16777216 points");
  expect(OperatorCase("torch.fft.fft").Param("dim", "2").Input(x), invalid, "axis 2");
  expect(OperatorCase("torch.fft.fft").Input(Tensor::Scalar(1.f)), invalid, "rank 0");
  expect(OperatorCase("torch.fft.irfft").Input(RandomTensor(DType::kC64, {3, 1})), invalid,
         "at least 1 point");
  expect(OperatorCase("torch.fft.rfft").Input(RandomTensor(DType::kC64, {3})), invalid,
         "dtype c64");
  expect(OperatorCase("torch.fft.fft").Input(RandomTensor(DType::kF16, {3})), invalid, "dtype f16");
  expect(OperatorCase("torch.fft.fft").Param("norm", "other").Input(x), ErrorCode::kInvalidModel,
         "norm");
  expect(OperatorCase("torch.fft.fft2").Input(RandomTensor(DType::kF32, {3})), invalid, "axis -2");
  expect(OperatorCase("torch.fft.fftn").Param("s", "(1,2,3)").Input(x), invalid, "at most 2");
  expect(OperatorCase("torch.fft.fftn").Param("s", "(2)").Param("dim", "(0,1)").Input(x), invalid,
         "as many numbers of points");
  expect(OperatorCase("torch.fft.fftn").Param("dim", "(0,-2)").Input(x), invalid, "appears twice");
  expect(OperatorCase("torch.fft.fftn").Param("s", "(-2,3)").Input(x), invalid, "at least 1 point");
  expect(OperatorCase("torch.fft.rfftn").Input(Tensor::Scalar(1.f)), invalid, "at least one axis");
}

}  // namespace
}  // namespace oort::testing
