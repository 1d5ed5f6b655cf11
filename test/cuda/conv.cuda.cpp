// SPDX-License-Identifier: MIT
// Convolutions on the device against sums in f64 of the same rounded inputs.
#include "layers/convolution/cuda/conv.h"

#include <cstring>
#include <set>
#include <vector>

#include "device_case.h"
#include "layers/convolution/cuda/conv_algorithms.h"
#include "layers/convolution/cuda/narrow_conv.h"

namespace oort::cuda {
namespace {

struct ConvCase {
  int batch, height, width, channels, filters;  // of all groups
  int kernel_height, kernel_width, stride, pad, dilation, groups;
  bool addend;
  Activation activation;
};

DType TypeOf(ConvMath math) {
  if (math == ConvMath::kF16) return DType::kF16;
  return math == ConvMath::kBF16 ? DType::kBF16 : DType::kF32;
}

double MathTolerance(ConvMath math) {
  return math == ConvMath::kTF32 ? 1e-3 : ToleranceOf(TypeOf(math));
}

/// Operands, and what they give.
class ConvFixture {
 public:
  ConvFixture(const ConvCase& test, ConvMath math, bool depthwise = false)
      : test_(test), math_(math), stream_(0) {
    const auto walk = [&](int in, int kernel) {
      const int out = (in + 2 * test.pad - test.dilation * (kernel - 1) - 1) / test.stride + 1;
      return ConvWalk{in, out, kernel, test.stride, test.dilation, test.pad};
    };
    call.batch = test.batch;
    call.height = walk(test.height, test.kernel_height);
    call.width = walk(test.width, test.kernel_width);
    call.groups = test.groups;
    call.channels = test.channels / test.groups;
    call.filters = test.filters / test.groups;
    call.in_pixel = test.channels;
    call.out_pixel = test.filters;
    call.depth = ConvDepth(math, call.channels, call.taps());
    const DType type = TypeOf(math);
    in_ = RandomValues(type, {test.batch, test.height, test.width, test.channels}, 1);
    const int64_t terms = call.channels * call.taps();
    weight_ = RandomValues(type, {test.filters, call.taps(), call.channels}, 2,
                           1 / std::sqrt(static_cast<float>(terms)));
    bias_ = RandomValues(DType::kF32, {test.filters}, 3);
    addend_ = RandomValues(type, {call.rows(), test.filters}, 4);
    Compute();
    Upload(type, depthwise, terms);
  }

  void Expect(const char* what) {
    SCOPED_TRACE(what);
    const Tensor results = Fetch(stream_, out_);
    ExpectNear(results, expected_, MathTolerance(math_));
    stream_.Fill(out_.raw(), 0xff, out_.bytes());
  }
  std::vector<std::byte> Bits() {
    stream_.Synchronize();
    const Tensor host = ToHost(out_);
    return {host.raw(), host.raw() + host.bytes()};
  }
  Stream& stream() { return stream_; }
  ConvMath math() const { return math_; }

  ConvCall call;

 private:
  void Compute() {
    for (int64_t row = 0; row < call.rows(); ++row) {
      for (int64_t f = 0; f < test_.filters; ++f) {
        double sum = bias_.data<float>()[f] + Window(row, f);
        if (test_.addend) sum += addend_.data<float>()[row * test_.filters + f];
        if (test_.activation == Activation::kRelu) sum = std::max(sum, 0.0);
        if (test_.activation == Activation::kSilu) sum = sum / (1 + std::exp(-sum));
        expected_.push_back(sum);
      }
    }
  }

  double Window(int64_t row, int64_t filter) const {
    const int64_t x = row % call.width.out, y = row / call.width.out % call.height.out;
    const int64_t image = row / call.width.out / call.height.out;
    double sum = 0;
    for (int64_t tap = 0; tap < call.taps(); ++tap) {
      const int64_t down = y * test_.stride - test_.pad + tap / test_.kernel_width * test_.dilation;
      const int64_t along =
          x * test_.stride - test_.pad + tap % test_.kernel_width * test_.dilation;
      if (down < 0 || down >= test_.height || along < 0 || along >= test_.width) continue;
      const float* pixel = in_.data<float>() +
                           ((image * test_.height + down) * test_.width + along) * test_.channels +
                           filter / call.filters * call.channels;
      const float* weight = weight_.data<float>() + (filter * call.taps() + tap) * call.channels;
      for (int c = 0; c < call.channels; ++c) sum += static_cast<double>(pixel[c]) * weight[c];
    }
    return sum;
  }

  void Upload(DType type, bool depthwise, int64_t terms) {
    Tensor packed = depthwise ? Tensor::Zeros(DType::kF32, {call.taps(), test_.filters})
                              : Tensor::Zeros(DType::kF32, {test_.filters, call.depth});
    for (int64_t f = 0; f < test_.filters; ++f) {
      for (int64_t i = 0; i < terms; ++i) {
        packed.data<float>()[depthwise ? i * test_.filters + f : f * call.depth + i] =
            weight_.data<float>()[f * terms + i];
      }
    }
    on_device_ = {OnDevice(in_, type), OnDevice(packed, type), OnDevice(bias_, DType::kF32),
                  OnDevice(addend_, type)};
    out_ = Poisoned(stream_, type, {call.rows(), test_.filters});
    call.in = on_device_[0].raw();
    call.weight = on_device_[1].raw();
    call.epilogue.bias = on_device_[2].data<float>();
    call.epilogue.addend = test_.addend ? on_device_[3].raw() : nullptr;
    call.epilogue.activation = test_.activation;
    call.out = out_.raw();
  }

  ConvCase test_;
  ConvMath math_;
  Stream stream_;
  Tensor in_, weight_, bias_, addend_, out_;
  std::vector<Tensor> on_device_;
  std::vector<double> expected_;
};

constexpr Activation kNone = Activation::kNone, kRelu = Activation::kRelu,
                     kSilu = Activation::kSilu;

constexpr ConvCase kCases[] = {
    {1, 7, 9, 8, 8, 3, 3, 1, 1, 1, 1, false, kNone},
    {2, 13, 11, 24, 40, 3, 3, 2, 1, 1, 1, true, kRelu},
    {1, 14, 14, 64, 72, 3, 3, 1, 2, 2, 1, false, kRelu},
    {1, 20, 18, 4, 64, 7, 7, 2, 3, 1, 1, false, kRelu},   // 8-byte grains
    {3, 6, 7, 58, 58, 1, 1, 1, 0, 1, 1, true, kSilu},     // 4-byte grains, odd columns
    {1, 9, 5, 200, 136, 1, 1, 1, 0, 1, 1, false, kNone},  // no whole steps
    {1, 5, 5, 6, 10, 3, 1, 1, 1, 1, 1, false, kNone},
    {2, 10, 10, 32, 48, 3, 3, 1, 1, 1, 4, true, kRelu},    // groups
    {1, 12, 12, 320, 96, 3, 3, 1, 1, 1, 1, false, kNone},  // many steps
    {1, 1, 1, 512, 100, 1, 1, 1, 0, 1, 1, false, kNone},   // one row
    {3, 15, 13, 64, 136, 3, 3, 2, 1, 1, 1, true, kRelu},   // from here on for Hopper's kernels, too
    {2, 9, 21, 128, 72, 3, 5, 1, 1, 1, 1, false, kSilu},
    {1, 30, 17, 192, 64, 5, 1, 2, 2, 1, 1, true, kNone},
    {2, 64, 65, 8, 264, 1, 1, 1, 0, 1, 1, true, kRelu},  // several tiles a block
    {2, 33, 64, 72, 40, 1, 1, 1, 0, 1, 1, false, kNone},
    {1, 40, 31, 256, 128, 1, 1, 2, 0, 1, 1, false, kRelu},
};

class ConvMaths : public ::testing::TestWithParam<ConvMath> {};

TEST_P(ConvMaths, AllTilesAndSplitsGiveTheSums) {
  OORT_SKIP_WITHOUT_GPU();
  for (const ConvCase& test : kCases) {
    ConvFixture fixture(test, GetParam());
    ASSERT_TRUE(Convolves(fixture.call, GetParam()));
    for (size_t tile = 0; tile < ConvTiles(GetParam()).size(); ++tile) {
      for (int splits : {1, 2, 5, 8, 16}) {
        const ConvPlan plan = {static_cast<int>(tile), splits};
        if (!ConvPlanFits(fixture.call, GetParam(), plan, fixture.stream())) continue;
        const std::string what = std::to_string(test.channels) + " to " +
                                 std::to_string(test.filters) + " channels, tile " +
                                 std::to_string(tile) + ", " + std::to_string(splits) + " splits";
        Convolve(fixture.stream(), fixture.call, GetParam(), plan);
        fixture.Expect(what.c_str());
      }
    }
  }
}

TEST_P(ConvMaths, EachAlgorithmGivesTheSums) {
  OORT_SKIP_WITHOUT_GPU();
  std::set<std::string_view> ran;
  for (const ConvCase& test : kCases) {
    ConvFixture fixture(test, GetParam());
    const ConvProblem problem(fixture.call, GetParam(), fixture.stream().device());
    for (const CudaConvAlgorithm* algorithm : CudaConvAlgorithms()) {
      if (!algorithm->Accepts(problem)) continue;
      ran.insert(algorithm->name());
      RunConv(fixture.stream(), problem, algorithm->name());
      const std::string what = std::to_string(test.channels) + " to " +
                               std::to_string(test.filters) + " channels by " +
                               std::string(algorithm->name());
      fixture.Expect(what.c_str());
    }
  }
  EXPECT_TRUE(ran.contains(kConvImplicitGemm) && ran.contains(kConvDirect));
}

/// The first that accepts and wins: what is forced needs to accept alone.
TEST_P(ConvMaths, AlgorithmsAreTakenInTheOrderOfTheList) {
  OORT_SKIP_WITHOUT_GPU();
  const auto taken = [](const ConvProblem& problem, std::string_view wanted = "") {
    const auto list = CudaConvAlgorithms();
    return list[ChooseConv(list, problem, wanted)]->name();
  };
  ConvCall call;
  call.channels = call.in_pixel = 3;
  call.filters = call.out_pixel = 8;
  call.depth = 32;
  call.height = call.width = {32, 32, 3, 1, 1, 1};
  const bool words = ItemSize(GetParam()) == 4;
  EXPECT_EQ(taken({call, GetParam(), 0}), words ? kConvImplicitGemm : kConvDirect);
  EXPECT_EQ(taken({call, GetParam(), 0}, kConvDirect), kConvDirect);
  EXPECT_EQ(taken({call, GetParam(), 0, &call}), kConvDepthwise);
  call.channels = call.in_pixel = 8;
  call.depth = 72;
  EXPECT_EQ(taken({call, GetParam(), 0}), words ? kConvImplicitGemm : kConvNarrow);
  EXPECT_EQ(taken({call, GetParam(), 0}, kConvImplicitGemm), kConvImplicitGemm);
  EXPECT_EQ(taken({call, GetParam(), 0}, kConvWinogradF2), taken({call, GetParam(), 0}));
}

TEST_P(ConvMaths, TheChosenPlanGivesTheSameBitsEachTime) {
  OORT_SKIP_WITHOUT_GPU();
  for (const ConvCase& test : kCases) {
    ConvFixture fixture(test, GetParam());
    const ConvPlan plan = ChooseConvPlan(fixture.call, GetParam(), fixture.stream().device());
    Convolve(fixture.stream(), fixture.call, GetParam(), plan);
    const std::vector<std::byte> first = fixture.Bits();
    fixture.Expect("the first time");
    for (int i = 0; i < 20; ++i) {
      Convolve(fixture.stream(), fixture.call, GetParam(), plan);
      ASSERT_EQ(fixture.Bits(), first) << "run " << i;
    }
  }
}

TEST_P(ConvMaths, KernelsThatOverlapReadWhatTheOneBeforeWrote) {
  OORT_SKIP_WITHOUT_GPU();
  constexpr int kChannels = 64, kLayers = 12;
  const ConvCase test = {1, 14, 14, kChannels, kChannels, 3, 3, 1, 1, 1, 1, false, kRelu};
  ConvFixture fixture(test, GetParam());
  const DType type = TypeOf(GetParam());
  const Shape shape = {1, 14, 14, kChannels};
  const auto run = [&](bool overlap) {
    std::vector<Tensor> images = {OnDevice(RandomValues(type, shape, 9), type)};
    for (int i = 0; i < kLayers; ++i) images.push_back(Poisoned(fixture.stream(), type, shape));
    for (size_t i = 0; i < kLayers; ++i) {
      ConvCall call = fixture.call;
      call.in = images[i].raw();
      call.out = images[i + 1].raw();
      const ConvPlan plan = ChooseConvPlan(call, GetParam(), fixture.stream().device());
      Convolve(fixture.stream(), call, GetParam(), plan, overlap);
    }
    const Tensor last = Fetch(fixture.stream(), images.back());
    return std::vector<float>(last.data<float>(), last.data<float>() + last.elements());
  };
  const std::vector<float> expected = run(false);
  for (float x : expected) ASSERT_TRUE(std::isfinite(x));
  for (int i = 0; i < 20; ++i) ASSERT_EQ(run(true), expected) << "run " << i;
}

TEST_P(ConvMaths, ThePlainKernelTakesEverything) {
  OORT_SKIP_WITHOUT_GPU();
  for (const ConvCase& test : kCases) {
    ConvFixture fixture(test, GetParam());
    ConvolvePlain(fixture.stream(), fixture.call, GetParam());
    fixture.Expect("plain");
  }
  for (const ConvCase& odd : {ConvCase{1, 8, 9, 3, 5, 3, 3, 2, 1, 1, 1, false, kNone},
                              ConvCase{2, 5, 6, 15, 9, 2, 3, 1, 1, 2, 3, true, kRelu}}) {
    ConvFixture fixture(odd, GetParam());
    ConvolvePlain(fixture.stream(), fixture.call, GetParam());
    fixture.Expect("odd");
  }
}

TEST_P(ConvMaths, NarrowImages) {
  OORT_SKIP_WITHOUT_GPU();
  if (ItemSize(GetParam()) != 2) GTEST_SKIP() << "16 bits alone";
  for (const ConvCase& test :
       {ConvCase{1, 20, 18, 8, 64, 7, 4, 1, 3, 1, 1, false, kRelu},
        ConvCase{2, 33, 47, 8, 72, 3, 3, 2, 1, 1, 1, false, kSilu},   // odd taps
        ConvCase{5, 64, 64, 8, 200, 1, 1, 1, 0, 1, 1, false, kRelu},  // several tiles a block
        ConvCase{1, 5, 3, 8, 8, 1, 1, 1, 0, 1, 1, false, kNone},
        ConvCase{1, 40, 40, 8, 200, 5, 2, 2, 4, 1, 1, false, kNone}}) {
    ConvFixture fixture(test, GetParam());
    ASSERT_TRUE(ConvolvesNarrow(fixture.call, GetParam()));
    for (bool overlap : {false, true}) {
      ConvolveNarrow(fixture.stream(), fixture.call, GetParam(), overlap);
      fixture.Expect((std::to_string(test.filters) + " filters").c_str());
    }
  }
}

TEST_P(ConvMaths, DepthwiseOfAllKernelsAndStrides) {
  OORT_SKIP_WITHOUT_GPU();
  for (int channels : {5, 8, 24, 64}) {
    for (int kernel : {1, 3, 5, 7}) {
      for (int stride : {1, 2, 3}) {
        for (int dilation : {1, 2}) {
          const ConvCase test = {2,      17,     14,       channels, channels,    kernel, kernel,
                                 stride, kernel, dilation, channels, stride == 1, kRelu};
          ConvFixture fixture(test, GetParam(), true);
          ConvolveDepthwise(fixture.stream(), fixture.call, GetParam());
          const std::string what = std::to_string(channels) + " channels, kernel " +
                                   std::to_string(kernel) + ", stride " + std::to_string(stride);
          fixture.Expect(what.c_str());
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CudaConv, ConvMaths,
                         ::testing::Values(ConvMath::kF32, ConvMath::kTF32, ConvMath::kF16,
                                           ConvMath::kBF16));

TEST(CudaConvPlan, OddChannelsOfSixteenBitsAreForThePlainKernel) {
  ConvCall call;
  call.channels = call.in_pixel = 3;
  call.filters = call.out_pixel = 8;
  call.depth = 8;
  EXPECT_FALSE(Convolves(call, ConvMath::kF16));
  EXPECT_TRUE(Convolves(call, ConvMath::kF32));
  call.channels = call.in_pixel = 4;
  EXPECT_TRUE(Convolves(call, ConvMath::kF16));
  call.batch = int64_t{1} << 30;
  EXPECT_FALSE(Convolves(call, ConvMath::kF16));
}

}  // namespace
}  // namespace oort::cuda
