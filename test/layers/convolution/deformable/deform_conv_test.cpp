// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "test/kit/every_float.h"

namespace oort::testing {
namespace {

struct Deformed {
  std::array<int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1, offset_groups = 1;
  Tensor x = {}, weight = {}, bias = {}, offset = {}, mask = {};  // bias and mask may be missing

  std::array<int64_t, 2> Output() const {
    std::array<int64_t, 2> out{};
    for (size_t i = 0; i < 2; ++i) {
      const int a = static_cast<int>(i) + 2;
      out[i] =
          (x.shape()[a] + 2 * padding[i] - dilation[i] * (weight.shape()[a] - 1) - 1) / stride[i] +
          1;
    }
    return out;
  }

  /// Random tensors of the shapes that fit.
  static Deformed Random(Deformed d, int64_t batch, int64_t in, int64_t out, Shape kernel,
                         Shape image, bool with_mask, double reach) {
    d.x = RandomTensor(DType::kF32, {batch, in, image[0], image[1]}, 1);
    d.weight = RandomTensor(DType::kF32, {out, in / d.groups, kernel[0], kernel[1]}, 2);
    d.bias = RandomTensor(DType::kF32, {out}, 3);
    const auto [h, w] = d.Output();
    const int64_t taps = d.offset_groups * kernel[0] * kernel[1];
    d.offset = RandomTensor(DType::kF32, {batch, 2 * taps, h, w}, 4, -reach, reach);
    if (with_mask) d.mask = RandomTensor(DType::kF32, {batch, taps, h, w}, 5);
    return d;
  }

  double Sample(int64_t n, int64_t c, double y, double x_at) const {
    const Shape& s = x.shape();
    const auto at = [&](double row, double column) {
      if (row < 0 || column < 0 || row >= static_cast<double>(s[2]) ||
          column >= static_cast<double>(s[3]))
        return 0.0;
      return Element(x, ((n * s[1] + c) * s[2] + static_cast<int64_t>(row)) * s[3] +
                            static_cast<int64_t>(column));
    };
    const double top = std::floor(y), left = std::floor(x_at);
    const double b = y - top, r = x_at - left;
    return (1 - b) * ((1 - r) * at(top, left) + r * at(top, left + 1)) +
           b * ((1 - r) * at(top + 1, left) + r * at(top + 1, left + 1));
  }

  Tensor Expected() const {
    const auto [height, width] = Output();
    const Shape &xs = x.shape(), &ws = weight.shape();
    const int64_t taps = ws[2] * ws[3], pixels = height * width;
    Tensor y(DType::kF64, {xs[0], ws[0], height, width});
    double* out = y.data<double>();
    for (int64_t n = 0; n < xs[0]; ++n)
      for (int64_t o = 0; o < ws[0]; ++o)
        for (int64_t i = 0; i < pixels; ++i) {
          double sum = bias.defined() ? Element(bias, o) : 0;
          for (int64_t k = 0; k < ws[1] * taps; ++k) {
            const int64_t c = o / (ws[0] / groups) * ws[1] + k / taps, tap = k % taps;
            const int64_t field = (n * offset_groups + c / (xs[1] / offset_groups)) * taps + tap;
            const int64_t shift = 2 * field * pixels + i;
            const double row = static_cast<double>(i / width * stride[0] - padding[0] +
                                                   tap / ws[3] * dilation[0]) +
                               Element(offset, shift);
            const double column = static_cast<double>(i % width * stride[1] - padding[1] +
                                                      tap % ws[3] * dilation[1]) +
                                  Element(offset, shift + pixels);
            const double scale = mask.defined() ? Element(mask, field * pixels + i) : 1;
            sum += Element(weight, o * ws[1] * taps + k) * scale * Sample(n, c, row, column);
          }
          *out++ = sum;
        }
    return y.To(x.dtype());
  }

  Deformed Converted(const Convert& convert) const {
    Deformed d = *this;
    for (Tensor* tensor : {&d.x, &d.weight, &d.bias, &d.offset, &d.mask})
      *tensor = convert(*tensor);
    return d;
  }

  OperatorCase Module() const {
    OperatorCase test("torchvision.ops.DeformConv2d");
    test.Param("stride", Shape(stride).ToString()).Param("padding", Shape(padding).ToString());
    test.Param("dilation", Shape(dilation).ToString()).Param("groups", std::to_string(groups));
    test.Attribute("weight", weight).Param("bias", bias.defined() ? "True" : "False");
    if (bias.defined()) test.Attribute("bias", bias);
    test.Input(x).Input(offset);
    if (mask.defined()) test.Input(mask);
    return test;
  }

  OperatorCase Function(bool constant_weight) const {
    OperatorCase test("pnnx.custom_op.torchvision.deform_conv2d");
    const std::array<int64_t, 8> numbers{stride[0],   stride[1],   padding[0], padding[1],
                                         dilation[0], dilation[1], groups,     offset_groups};
    for (size_t i = 0; i < 8; ++i) {
      test.Param("arg_" + std::to_string(i + 5), std::to_string(numbers[i]));
    }
    test.Param("arg_13", mask.defined() ? "True" : "False").Input(x, "arg_0");
    if (constant_weight) {
      test.Constant(weight, "arg_1");
    } else {
      test.Input(weight, "arg_1");
    }
    test.Input(offset, "arg_2");
    test.Input(mask.defined() ? mask : Tensor::Zeros(x.dtype(), {1, 1}), "arg_3");
    return test.Input(bias, "arg_4");
  }
};

constexpr Tolerance kSums{1e-4, 1e-3};

TEST(DeformConv, SumsDeformedTaps) {
  Deformed plain, wide{{2, 1}, {1, 2}, {1, 2}, 2, 1}, grouped{{1, 1}, {1, 1}, {1, 1}, 2, 3};
  const std::vector<Deformed> cases = {
      Deformed::Random(plain, 1, 3, 4, {3, 3}, {6, 7}, false, 1.5),
      Deformed::Random(plain, 2, 2, 1, {1, 1}, {1, 1}, true, 0.9),
      Deformed::Random(wide, 2, 4, 6, {3, 2}, {9, 8}, true, 3),
      Deformed::Random(wide, 1, 2, 2, {2, 3}, {5, 11}, false, 20),  // most lie outside
      Deformed::Random(grouped, 2, 6, 4, {3, 3}, {5, 6}, true, 2),
      Deformed::Random(grouped, 1, 12, 10, {2, 2}, {19, 23}, false, 1),
  };
  for (const Deformed& d : cases) {
    SCOPED_TRACE(d.x.ToString() + " * " + d.weight.ToString());
    const Tensor expected = d.Expected();
    d.Module().ExpectOutputs({expected}, kSums);
    d.Function(true).ExpectOutputs({expected}, kSums);
    d.Function(false).ExpectOutputs({expected}, kSums);
    Deformed bare = d;
    bare.bias = {};
    bare.Module().ExpectOutputs({bare.Expected()}, kSums);
  }
}

TEST(DeformConv, TakesEveryFloat) {
  for (bool with_mask : {false, true}) {
    const Deformed d =
        Deformed::Random({{2, 1}, {1, 2}, {1, 2}, 2, 2}, 2, 4, 6, {3, 2}, {9, 8}, with_mask, 3);
    const auto reference = [&](const Convert& convert) -> std::vector<Tensor> {
      return {d.Converted(convert).Expected()};
    };
    ExpectEveryFloat([&](const Convert& convert) { return d.Converted(convert).Module(); },
                     reference);
    ExpectEveryFloat([&](const Convert& convert) { return d.Converted(convert).Function(false); },
                     reference);
  }
}

TEST(DeformConv, WorksOnEdgeWidths) {
  for (int64_t width : EdgeLengths()) {
    if (width == 0 || width > 300) continue;
    const Deformed d =
        Deformed::Random({{1, 1}, {0, 1}, {1, 1}, 1, 1}, 1, 2, 3, {1, 3}, {1, width}, true, 1);
    d.Module().ExpectOutputs({d.Expected()}, kSums);
  }
}

/// Samples may lie anywhere: those that are no numbers give NaN, those far away give zero, and no
/// infinity of the image reaches a sample that does not touch it.
TEST(DeformConv, SurvivesAnyOffset) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Deformed d;
  d.x = Tensor::From<float>({inf, 2, 3, 4}, {1, 1, 2, 2});
  d.weight = Tensor::From<float>({1}, {1, 1, 1, 1});
  d.bias = Tensor::From<float>({0.5f}, {1});
  d.offset = Tensor::From<float>({inf, -1e30f, nan, 0, 0, 1e30f, 0, 0}, {1, 2, 2, 2});
  const Tensor expected = Tensor::From<float>({0.5f, 0.5f, nan, 4.5f}, {1, 1, 2, 2});
  d.Module().ExpectOutputs({expected});
  d.Function(true).ExpectOutputs({expected});
  d.offset = Tensor::From<float>({3e38f, -inf, -1, 2, nan, nan, nan, -1e10f}, {1, 2, 2, 2});
  d.Module().ExpectOutputs({Tensor::From<float>({0.5f, 0.5f, nan, 0.5f}, {1, 1, 2, 2})});
}

TEST(DeformConv, WorksOnAnEmptyBatch) {
  Deformed d = Deformed::Random({}, 1, 2, 3, {2, 2}, {4, 4}, false, 1);
  d.x = Tensor(DType::kF32, {0, 2, 4, 4});
  d.offset = Tensor(DType::kF32, {0, 8, 3, 3});
  d.Module().ExpectOutputs({Tensor(DType::kF32, {0, 3, 3, 3})});
}

TEST(DeformConv, RefusesWhatIsWrong) {
  const Deformed good = Deformed::Random({}, 1, 4, 6, {3, 3}, {5, 5}, true, 1);
  const auto expect = [&](auto change, std::string_view message) {
    Deformed d = good;
    change(d);
    d.Module().ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect(
      [](Deformed& d) {
        d.offset = Tensor::Zeros(DType::kF32, {1, 18, 2, 3});
      },
      "expected 'offset' of shape (1,18,3,3)");
  expect(
      [](Deformed& d) {
        d.offset = Tensor::Zeros(DType::kF32, {1, 17, 3, 3});
      },
      "expected offsets");
  expect(
      [](Deformed& d) {
        d.offset = Tensor::Zeros(DType::kF32, {1, 54, 3, 3});
      },
      "groups that divide 4 channels");
  expect(
      [](Deformed& d) {
        d.offset = Tensor::Zeros(DType::kF32, {18, 3, 3});
      },
      "expected offsets");
  expect(
      [](Deformed& d) {
        d.mask = Tensor::Zeros(DType::kF32, {1, 18, 3, 3});
      },
      "expected 'mask' of shape (1,9,3,3)");
  expect([](Deformed& d) { d.x = Tensor::Zeros(DType::kF32, {4, 5, 5}); }, "input of rank 4");
  expect([](Deformed& d) { d.x = Tensor::Zeros(DType::kF32, {1, 5, 5, 5}); }, "4 input channels");
  expect([](Deformed& d) { d.dilation = {2147483647, 1}; }, "padded input of at least");
  expect([](Deformed& d) { d.padding = {2147483647, 2147483647}; }, "overflows");
  expect([](Deformed& d) { d.offset = Tensor::Zeros(DType::kF64, {1, 18, 3, 3}); }, "dtype f64");
  Deformed d = good;
  d.stride = {0, 1};
  d.Module().ExpectError(ErrorCode::kInvalidModel, "stride");
  d.Function(true).ExpectError(ErrorCode::kInvalidModel, "arg_5");
  d = good;
  d.offset_groups = 2;
  d.Function(true).ExpectError(ErrorCode::kInvalidArgument, "expected 'offset' of shape");
}

}  // namespace
}  // namespace oort::testing
