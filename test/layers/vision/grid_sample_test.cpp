// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "oort/testing.h"

namespace oort::testing {
namespace {

constexpr float kGridNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGridInf = std::numeric_limits<float>::infinity();

struct GridSampling {
  std::string mode, padding;
  bool align = false;

  OperatorCase Case(const Tensor& input, const Tensor& grid) const {
    OperatorCase test("F.grid_sample");
    test.Param("mode", mode).Param("padding_mode", padding);
    test.Param("align_corners", align ? "True" : "False");
    return test.Input(input, "input").Input(grid, "grid");
  }
};

std::vector<GridSampling> AllSamplings(bool volume) {
  std::vector<GridSampling> all;
  for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
    if (volume && std::string(mode) == "bicubic") continue;
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (bool align : {false, true}) all.push_back({mode, padding, align});
    }
  }
  return all;
}

/// An element of an axis, -1 where it is zero padding, and its weight.
struct Weighted {
  int64_t index;
  double weight;
};

/// Walks back and forth over an axis until it finds the element.
int64_t PaddedIndex(const GridSampling& s, int64_t index, int64_t size) {
  if (index >= 0 && index < size) return index;
  if (s.padding == "zeros") return -1;
  if (s.padding == "border") return index < 0 ? 0 : size - 1;
  if (s.align && size == 1) return 0;
  const int64_t before = s.align ? -index : -1 - index;
  return PaddedIndex(s, index < 0 ? before : 2 * size - (s.align ? 2 : 1) - index, size);
}

double PaddedPoint(const GridSampling& s, double at, int64_t size) {
  const double last = static_cast<double>(size - 1);
  if (s.padding == "zeros") return at;
  if (s.padding == "reflection") {
    const double low = s.align ? 0 : -0.5, high = last - low;
    if (high <= low) return 0;
    while (at < low || at > high) at = at < low ? 2 * low - at : 2 * high - at;
  }
  return std::clamp(at, 0.0, last);
}

std::vector<Weighted> AxisWeights(const GridSampling& s, double x, int64_t size) {
  const double extent = static_cast<double>(size);
  const double at = s.align ? (x + 1) / 2 * (extent - 1) : ((x + 1) * extent - 1) / 2;
  const auto inside = [&](double index) {
    return index >= 0 && index < extent ? static_cast<int64_t>(index) : -1;
  };
  if (s.mode == "nearest") return {{inside(std::nearbyint(PaddedPoint(s, at, size))), 1}};
  if (s.mode == "bilinear") {
    const double point = PaddedPoint(s, at, size), floor = std::floor(point);
    return {{inside(floor), 1 - (point - floor)}, {inside(floor + 1), point - floor}};
  }
  std::vector<Weighted> taps;
  const double floor = std::floor(at);
  for (int64_t j = -1; j <= 2; ++j) {
    const double d = std::abs(at - floor - static_cast<double>(j)), a = -0.75;
    const double weight = d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                                 : a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a;
    taps.push_back({PaddedIndex(s, static_cast<int64_t>(floor) + j, size), weight});
  }
  return taps;
}

Tensor Sampled(const GridSampling& s, const Tensor& input, const Tensor& grid) {
  const Shape &in = input.shape(), &g = grid.shape();
  const int rank = in.rank(), axes = rank - 2;
  Shape shape = g;
  shape.Erase(rank - 1);
  shape.Insert(1, in[1]);
  Tensor output(DType::kF64, shape);
  const int64_t samples = g.Product(1, rank - 1), plane = in.Product(2, rank);
  for (int64_t i = 0; i < output.elements(); ++i) {
    const int64_t image = i / (samples * in[1]), c = i / samples % in[1];
    const double* point = grid.data<double>() + (image * samples + i % samples) * axes;
    // Combines the axes one by one, the outermost first.
    std::vector<Weighted> taps{{0, 1}};
    for (int a = 0; a < axes; ++a) {
      const std::vector<Weighted> weights = AxisWeights(s, point[axes - 1 - a], in[a + 2]);
      std::vector<Weighted> next;
      next.reserve(taps.size() * weights.size());
      for (const Weighted& outer : taps) {
        for (const Weighted& tap : weights) {
          const bool outside = outer.index < 0 || tap.index < 0;
          next.push_back(
              {outside ? -1 : outer.index * in[a + 2] + tap.index, outer.weight * tap.weight});
        }
      }
      taps = next;
    }
    double sum = 0;
    for (const Weighted& tap : taps) {
      if (tap.index < 0) continue;
      sum += tap.weight * input.data<double>()[(image * in[1] + c) * plane + tap.index];
    }
    output.data<double>()[i] = sum;
  }
  return output;
}

void ExpectSampled(const GridSampling& s, const Tensor& input, const Tensor& grid) {
  SCOPED_TRACE(s.mode + " " + s.padding + (s.align ? " aligned " : " ") + input.ToString());
  s.Case(input, grid)
      .ExpectLike(
          [&](const std::vector<Tensor>& in) {
            return std::vector<Tensor>{Sampled(s, in[0], in[1])};
          },
          {1e-4, 1e-3});
}

TEST(GridSample, SamplesImages) {
  for (const GridSampling& s : AllSamplings(false)) {
    ExpectSampled(s, RandomTensor(DType::kF32, {2, 3, 5, 8}),
                  RandomTensor(DType::kF32, {2, 4, 7, 2}, 2));
    ExpectSampled(s, RandomTensor(DType::kF32, {1, 1, 1, 1}),
                  RandomTensor(DType::kF32, {1, 3, 3, 2}, 3, -4, 4));
    ExpectSampled(s, RandomTensor(DType::kF32, {1, 1, 1, 6}),
                  RandomTensor(DType::kF32, {1, 40, 110, 2}, 4, -1, 1));  // more than a chunk
  }
}

TEST(GridSample, SamplesVolumes) {
  for (const GridSampling& s : AllSamplings(true)) {
    ExpectSampled(s, RandomTensor(DType::kF32, {2, 3, 4, 5, 6}),
                  RandomTensor(DType::kF32, {2, 3, 2, 4, 3}, 2));
    ExpectSampled(s, RandomTensor(DType::kF32, {1, 1, 1, 2, 1}),
                  RandomTensor(DType::kF32, {1, 1, 40, 110, 3}, 3, -3, 3));
  }
}

TEST(GridSample, WorksOnEdgeLengths) {
  const GridSampling s{"bilinear", "zeros", false};
  for (int64_t length : EdgeLengths()) {
    ExpectSampled(s, RandomTensor(DType::kF32, {1, 2, 4, 5}),
                  RandomTensor(DType::kF32, {1, 1, length, 2}, 2, -1.5, 1.5));
  }
}

/// Values from torch: x = arange(1, 13).view(1, 1, 3, 4), y = 0.3.
TEST(GridSample, FindsItsWayFromAnyCoordinate) {
  const Tensor x = RangeTensor(DType::kF32, {1, 1, 3, 4}, 1);
  const Tensor grid = Tensor::From<float>(
      {kGridNan, 0.3f, kGridInf, 0.3f, -kGridInf, 0.3f, 1e30f, 0.3f, -1e30f, 0.3f}, {1, 1, 5, 2});
  const auto expect = [&](const GridSampling& s, std::initializer_list<float> values) {
    SCOPED_TRACE(s.mode + " " + s.padding);
    s.Case(x, grid).ExpectOutputs({Tensor::From<float>(values, {1, 1, 1, 5})});
  };
  const float nan = kGridNan;
  expect({"bilinear", "zeros", true}, {nan, nan, nan, 0, 0});
  expect({"bilinear", "zeros", false}, {nan, nan, nan, 0, 0});
  expect({"bilinear", "border", true}, {nan, 9.2f, 6.2f, 9.2f, 6.2f});
  expect({"bilinear", "border", false}, {nan, 9.8f, 6.8f, 9.8f, 6.8f});
  expect({"nearest", "zeros", true}, {5, 0, 0, 0, 0});
  expect({"nearest", "border", false}, {5, 8, 5, 8, 5});
  expect({"bicubic", "zeros", true}, {nan, nan, nan, 0, 0});
  expect({"bicubic", "border", true}, {nan, nan, nan, 9.557f, 6.557f});
}

/// Values from torch: x = arange(1, 25).view(1, 1, 2, 3, 4), y = 0.3, z = 0.1.
TEST(GridSample, FindsItsWayInVolumes) {
  const Tensor x = RangeTensor(DType::kF32, {1, 1, 2, 3, 4}, 1);
  const Tensor grid = Tensor::From<float>({kGridNan, 0.3f, 0.1f, kGridInf, 0.3f, 0.1f, -kGridInf,
                                           0.3f, 0.1f, 1e30f, 0.3f, 0.1f, -1e30f, 0.3f, 0.1f},
                                          {1, 1, 1, 5, 3});
  const auto expect = [&](const GridSampling& s, std::initializer_list<float> values) {
    SCOPED_TRACE(s.mode + " " + s.padding);
    s.Case(x, grid).ExpectOutputs({Tensor::From<float>(values, {1, 1, 1, 1, 5})});
  };
  expect({"bilinear", "zeros", true}, {kGridNan, 0, 0, 0, 0});
  expect({"bilinear", "border", true}, {15.8f, 15.8f, 12.8f, 15.8f, 12.8f});
  expect({"nearest", "zeros", false}, {17, 0, 0, 0, 0});
  expect({"nearest", "border", true}, {20, 20, 17, 20, 17});
  expect({"nearest", "reflection", false}, {20, 20, 20, 20, 20});
}

/// Whatever the coordinates, every combination must stay inside the image.
TEST(GridSample, NeverLeavesTheImage) {
  const float most = std::numeric_limits<float>::max();
  std::vector<float> odd = {kGridNan, kGridInf, -kGridInf, most, -most, 1e30f, -1e30f, 1e10f,
                            3e9f,     -3e9f,    16777216,  -2,   1,     -1,    0,      1e-38f};
  std::vector<float> points;
  for (float a : odd)
    for (float b : odd) points.insert(points.end(), {a, b, b});
  const int64_t pairs = static_cast<int64_t>(points.size()) / 3;
  std::vector<float> flat;
  for (size_t i = 0; i < points.size(); i += 3) flat.insert(flat.end(), {points[i], points[i + 1]});
  const Tensor image = RandomTensor(DType::kF32, {1, 2, 3, 4});
  const Tensor volume = RandomTensor(DType::kF32, {1, 2, 2, 3, 4});
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor grid = Tensor::From(std::span<const float>(flat), {1, 1, pairs, 2}).To(dtype);
    for (const GridSampling& s : AllSamplings(false)) s.Case(image.To(dtype), grid).Run();
    const Tensor deep = Tensor::From(std::span<const float>(points), {1, 1, 1, pairs, 3}).To(dtype);
    for (const GridSampling& s : AllSamplings(true)) s.Case(volume.To(dtype), deep).Run();
  }
}

TEST(GridSample, HasTorchsDefaultsAndEmptyResults) {
  const Tensor x = RandomTensor(DType::kF64, {1, 2, 3, 4}),
               grid = RandomTensor(DType::kF64, {1, 2, 2, 2});
  OperatorCase("F.grid_sample")
      .Input(x)
      .Input(grid)
      .ExpectOutputs({Sampled({"bilinear", "zeros", false}, x, grid)});
  OperatorCase("F.grid_sample")
      .Input(x)
      .Input(Tensor(DType::kF64, {1, 0, 2, 2}))
      .ExpectOutputs({Tensor(DType::kF64, {1, 2, 0, 2})});
}

TEST(GridSample, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {1, 2, 3, 4});
  const auto expect = [](const GridSampling& s, const Tensor& input, const Shape& grid,
                         std::string_view message) {
    s.Case(input, Tensor::Zeros(DType::kF32, grid))
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  const GridSampling linear{"bilinear", "zeros", false}, cubic{"bicubic", "zeros", false};
  expect(linear, x, {1, 2, 2, 3}, "2 coordinates a sample");
  expect(linear, x, {2, 2, 2, 2}, "with batch 1");
  expect(linear, x, {1, 1, 2, 2, 2}, "grid of rank 4");
  expect(linear, Tensor(DType::kF32, {2, 3, 4}), {2, 2, 2}, "input of rank 4 or 5");
  expect(linear, Tensor(DType::kF32, {1, 2, 0, 4}), {1, 2, 2, 2}, "spatial extents above zero");
  expect(linear, x.To(DType::kF64), {1, 2, 2, 2}, "of one dtype");
  expect(cubic, Tensor(DType::kF32, {1, 1, 2, 2, 2}), {1, 1, 1, 1, 3}, "bicubic takes an input");
  GridSampling{"lanczos", "zeros", false}
      .Case(x, Tensor::Zeros(DType::kF32, {1, 2, 2, 2}))
      .ExpectError(ErrorCode::kInvalidModel, "must be one of");
}

}  // namespace
}  // namespace oort::testing
