// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "roi_case.h"

namespace oort::testing {
namespace {

/// Bilinear, zero from one element outside on; the border goes on for one element.
double RoiSample(const double* plane, int64_t height, int64_t width, double y, double x) {
  if (y < -1 || x < -1 || y > static_cast<double>(height) || x > static_cast<double>(width)) {
    return 0;
  }
  const auto clip = [](double at, int64_t extent) {
    return std::clamp(at, 0.0, static_cast<double>(extent - 1));
  };
  y = clip(y, height);
  x = clip(x, width);
  double sum = 0;
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j)
      sum += std::max(0.0, 1 - std::abs(y - static_cast<double>(i))) *
             std::max(0.0, 1 - std::abs(x - static_cast<double>(j))) * plane[i * width + j];
  return sum;
}

Tensor RoiAligned(const RoiCase& spec, const Tensor& input, const Tensor& boxes) {
  const Shape& in = input.shape();
  Tensor output(DType::kF64, {boxes.shape()[0], in[1], spec.height, spec.width});
  double* out = output.data<double>();
  for (int64_t k = 0; k < boxes.shape()[0]; ++k) {
    const double* box = boxes.data<double>() + k * 5;
    std::array<double, 4> corner{};
    for (size_t i = 0; i < 4; ++i) corner[i] = box[i + 1] * spec.scale - (spec.aligned ? 0.5 : 0);
    double wide = corner[2] - corner[0], high = corner[3] - corner[1];
    if (!spec.aligned) wide = std::max(wide, 1.0), high = std::max(high, 1.0);
    wide /= static_cast<double>(spec.width);
    high /= static_cast<double>(spec.height);
    const double rows = spec.samples > 0 ? static_cast<double>(spec.samples) : std::ceil(high);
    const double columns = spec.samples > 0 ? static_cast<double>(spec.samples) : std::ceil(wide);
    for (int64_t i = 0; i < in[1] * spec.height * spec.width; ++i) {
      const int64_t c = i / (spec.height * spec.width);
      const double* plane =
          input.data<double>() + (static_cast<int64_t>(box[0]) * in[1] + c) * in[2] * in[3];
      double sum = 0;
      for (double a = 0; a < rows; ++a)
        for (double b = 0; b < columns; ++b)
          sum += RoiSample(
              plane, in[2], in[3],
              corner[1] +
                  (static_cast<double>(i / spec.width % spec.height) + (a + 0.5) / rows) * high,
              corner[0] + (static_cast<double>(i % spec.width) + (b + 0.5) / columns) * wide);
      *out++ = sum / std::max(rows * columns, 1.0);
    }
  }
  return output;
}

/// Inside, reaching out on all sides, turned inside out, tiny, far away.
Tensor SomeBoxes() {
  return Tensor::From<float>({0, 1.5f, 2.25f, 9,    7.5f, 1,    -3,   -2, 14, 15, 0,  6, 5,
                              2, 3,    1,     3.4f, 3.4f, 3.6f, 3.6f, 0,  40, 40, 60, 60},
                             {5, 5});
}

TEST(RoiAlign, AveragesSamples) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 8, 10});
  for (int64_t samples : {-1, 0, 1, 2, 3}) {
    for (bool aligned : {false, true}) {
      for (double scale : {1.0, 0.5, 2.0}) {
        const RoiCase spec{scale, 3, 2, samples, aligned};
        SCOPED_TRACE(std::to_string(samples) + " samples, scale " + std::to_string(scale));
        const auto reference = [&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{RoiAligned(spec, in[0], in[1])};
        };
        spec.Module().Input(x).Input(SomeBoxes()).ExpectLike(reference);
        spec.Custom("roi_align")
            .Input(x, "arg_0")
            .Input(SomeBoxes(), "arg_1")
            .ExpectLike(reference);
      }
    }
  }
}

/// A huge box has few samples in the image, and they must be found without trying them all.
TEST(RoiAlign, SurvivesAnyBox) {
  const Tensor x = RandomTensor(DType::kF32, {1, 4, 3, 5});
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> odd = {kRoiNan, kRoiInf, -kRoiInf, most,   -most, 1e30f,
                                  -1e30f,  3e9f,    -3e9f,    1e-40f, 2,     -16777216};
  std::vector<float> boxes;
  for (float a : odd)
    for (float b : odd) {
      boxes.insert(boxes.end(), {0, a, b, b, a});
      boxes.insert(boxes.end(), {0.9f, a, 0, b, 3});
      boxes.insert(boxes.end(), {-0.5f, 0, a, 5, b});
    }
  const Tensor all =
      Tensor::From(std::span<const float>(boxes), {static_cast<int64_t>(boxes.size()) / 5, 5});
  for (int64_t samples : {-1, 2}) {
    for (bool aligned : {false, true}) {
      const RoiCase spec{0.5, 2, 2, samples, aligned};
      for (DType dtype : {DType::kF32, DType::kF64}) {
        for (const char* name : {"roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"}) {
          spec.Custom(name).Input(x.To(dtype)).Input(all.To(dtype)).Run();
        }
      }
    }
  }
  // From torchvision: samples that are far away are zero.
  RoiCase{1, 2, 2, 2, true}
      .Custom("roi_align")
      .Input(RoiImage4x4(1))
      .Input(Tensor::From<float>({0, 1e30f, 1e30f, 2e30f, 2e30f}, {1, 5}))
      .ExpectOutputs({Tensor::Zeros(DType::kF32, {1, 1, 2, 2})});
}

TEST(RoiAlign, WorksOnNoBoxesAndNoChannels) {
  for (const char* name : {"roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"}) {
    const std::vector<Tensor> got = RoiCase{}
                                        .Custom(name)
                                        .Input(Tensor::Zeros(DType::kF32, {1, 4, 3, 3}))
                                        .Input(Tensor(DType::kF32, {0, 5}))
                                        .Run();
    const int64_t channels = std::string(name).starts_with("ps_") ? 1 : 4;
    EXPECT_EQ(got[0].shape(), (Shape{0, channels, 2, 2}));
  }
  RoiCase{}
      .Module()
      .Input(Tensor(DType::kF32, {1, 0, 3, 3}))
      .Input(SomeBoxes())
      .ExpectOutputs({Tensor(DType::kF32, {5, 0, 2, 2})});
}

TEST(RoiAlign, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {1, 3, 4, 4});
  const Tensor box = Tensor::Zeros(DType::kF32, {1, 5});
  const auto expect = [](const OperatorCase& test, const Tensor& input, const Tensor& boxes,
                         std::string_view message) {
    OperatorCase(test).Input(input).Input(boxes).ExpectError(ErrorCode::kInvalidArgument, message);
  };
  for (const char* name : {"roi_align", "roi_pool"}) {
    const OperatorCase test = RoiCase{}.Custom(name);
    expect(test, x.Reshaped({3, 4, 4}), box, "input of rank 4");
    expect(test, x, box.Reshaped({5}), "boxes of shape (K,5)");
    expect(test, x, Tensor::Zeros(DType::kF32, {1, 4}), "boxes of shape (K,5)");
    expect(test, x, box.To(DType::kF64), "of one dtype");
    for (float image : {1.0f, -1.0f, 1e30f, kRoiNan, kRoiInf}) {
      expect(test, x, Tensor::From<float>({image, 0, 0, 1, 1}, {1, 5}), "expected boxes in images");
    }
  }
  for (const char* name : {"ps_roi_align", "ps_roi_pool"}) {
    expect(RoiCase{}.Custom(name), x, box, "channels that divide into 4 bins");
  }
  RoiCase{1, 0, 2, 1, false}.Module().Input(x).Input(box).ExpectError(ErrorCode::kInvalidModel,
                                                                      "output_size");
  RoiCase{1, 2, 2, 2147483647, false}.Module().Input(x).Input(box).ExpectError(
      ErrorCode::kInvalidModel, "sampling_ratio");
  RoiCase{1, 2147483647, 2147483647, 1, false}.Module().Input(x).Input(box).ExpectError(
      ErrorCode::kInvalidArgument, "too many elements");
}

}  // namespace
}  // namespace oort::testing
