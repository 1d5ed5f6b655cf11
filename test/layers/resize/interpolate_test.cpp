// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

struct Tap {
  int64_t index;
  double weight;
};

/// The inputs of output i and their weights, in f64; `factor` 0 stands for out / in.
std::vector<Tap> Taps(const std::string& mode, int64_t in, int64_t out, double factor, bool align,
                      int64_t i) {
  const double step = align        ? (out > 1 ? static_cast<double>(in - 1) / (out - 1) : 0)
                      : factor > 0 ? 1 / factor
                                   : static_cast<double>(in) / static_cast<double>(out);
  const auto clamp = [in](double at) {
    return std::min(in - 1, std::max<int64_t>(0, static_cast<int64_t>(at)));
  };
  if (mode == "nearest") return {{clamp(std::floor(i * step)), 1}};
  if (mode == "nearest-exact") return {{clamp(std::floor((i + 0.5) * step)), 1}};
  if (mode == "area") {
    std::vector<Tap> taps;
    for (int64_t j = 0; j < in; ++j) {
      if (j * out < (i + 1) * in && (j + 1) * out > i * in) taps.push_back({j, 1});
    }
    for (Tap& tap : taps) tap.weight = 1 / static_cast<double>(taps.size());
    return taps;
  }
  const double at = align ? i * step : (i + 0.5) * step - 0.5;
  const double floor = std::floor(at), part = at - floor;
  if (mode == "bicubic") {
    std::vector<Tap> taps;
    for (int64_t j = -1; j <= 2; ++j) {
      const double d = std::abs(part - static_cast<double>(j)), a = -0.75;
      const double weight = d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                                   : a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a;
      taps.push_back({clamp(floor + static_cast<double>(j)), weight});
    }
    return taps;
  }
  return {{clamp(floor), 1 - part}, {clamp(floor + 1), part}};
}

/// Each axis in turn.
Tensor Resized(Tensor x, const std::string& mode, const std::vector<int64_t>& sizes,
               const std::vector<double>& factors, bool align) {
  for (size_t a = 0; a < sizes.size(); ++a) {
    const int axis = static_cast<int>(a) + 2;
    Shape shape = x.shape();
    const int64_t in = shape[axis], out = sizes[a], inner = shape.Product(axis + 1, shape.rank());
    shape[axis] = out;
    Tensor y(DType::kF64, shape);
    for (int64_t i = 0; i < y.elements(); ++i) {
      const int64_t outer = i / (inner * out), column = i % inner;
      double sum = 0;
      for (const Tap& tap :
           Taps(mode, in, out, factors.empty() ? 0 : factors[a], align, i / inner % out)) {
        sum += tap.weight * x.data<double>()[(outer * in + tap.index) * inner + column];
      }
      y.data<double>()[i] = sum;
    }
    x = y;
  }
  return x;
}

void ExpectSize(const Tensor& x, const std::string& mode, const std::vector<int64_t>& sizes,
                bool align) {
  SCOPED_TRACE(x.ToString() + " " + mode + " to " + Shape(sizes).ToString());
  OperatorCase test("F.interpolate");
  test.Param("mode", mode).Param("size", Shape(sizes).ToString()).Input(x, "input");
  if (align) test.Param("align_corners", "True");
  test.ExpectLike([&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{Resized(in[0], mode, sizes, {}, align)};
  });
}

/// Sizes with ratios that f32 holds, so that f32 and f64 pick the same neighbours.
TEST(Interpolate, ResizesToASize) {
  const Tensor x1 = RandomTensor(DType::kF32, {2, 3, 8}),
               x2 = RandomTensor(DType::kF32, {2, 3, 8, 4});
  const Tensor x3 = RandomTensor(DType::kF32, {1, 2, 4, 2, 8});
  for (const std::string mode : {"nearest", "nearest-exact", "area"}) {
    for (int64_t size : {1, 2, 4, 8, 16, 32}) ExpectSize(x1, mode, {size}, false);
    ExpectSize(x2, mode, {16, 8}, false);
    ExpectSize(x2, mode, {4, 1}, false);
    ExpectSize(x3, mode, {8, 4, 4}, false);
  }
  for (bool align : {false, true}) {
    for (int64_t size : {1, 3, 5, 8, 11, 40}) ExpectSize(x1, "linear", {size}, align);
    for (const char* mode : {"bilinear", "bicubic"}) {
      ExpectSize(x2, mode, {5, 11}, align);
      ExpectSize(x2, mode, {16, 8}, align);
      ExpectSize(x2, mode, {8, 4}, align);
      ExpectSize(x2, mode, {1, 1}, align);
    }
    ExpectSize(x3, "trilinear", {3, 5, 7}, align);
    ExpectSize(x3, "trilinear", {8, 4, 16}, align);
  }
  ExpectSize(RandomTensor(DType::kF32, {1, 2, 1, 1}), "bilinear", {3, 4}, false);
  ExpectSize(RandomTensor(DType::kF32, {1, 2, 1, 1}), "bicubic", {3, 4}, true);
}

TEST(Interpolate, WorksOnEdgeWidths) {
  for (int64_t width : EdgeLengths()) {
    if (width == 0) continue;
    const Tensor x = RandomTensor(DType::kF32, {1, 2, 2, width});
    ExpectSize(x, "nearest", {4, 2 * width}, false);
    ExpectSize(x, "bilinear", {4, 2 * width}, false);
    ExpectSize(x, "bilinear", {3, width}, true);
  }
}

TEST(Interpolate, CoordinatesFollowTheFactorUnlessRecomputed) {
  const Tensor x = RandomTensor(DType::kF32, {1, 2, 6, 10});
  for (const std::string mode : {"bilinear", "bicubic"}) {
    const std::vector<int64_t> sizes = {9, 27};  // 6 * 1.5, floor(10 * 2.75)
    for (bool recompute : {false, true}) {
      OperatorCase("F.interpolate")
          .Param("mode", mode)
          .Param("scale_factor", "(1.5,2.75)")
          .Param("recompute_scale_factor", recompute ? "True" : "False")
          .Input(x)
          .ExpectLike([&](const std::vector<Tensor>& in) {
            const std::vector<double> factors = {1.5, 2.75};
            return std::vector<Tensor>{
                Resized(in[0], mode, sizes, recompute ? std::vector<double>{} : factors, false)};
          });
    }
  }
}

TEST(Interpolate, PicksTorchsNeighbours) {
  const Tensor x = RangeTensor(DType::kF32, {1, 1, 7});
  const auto expect = [&](const std::string& mode, const std::string& key, const std::string& value,
                          bool recompute, const std::vector<float>& expected) {
    OperatorCase test("F.interpolate");
    test.Param("mode", mode).Param(key, value).Input(x);
    if (recompute) test.Param("recompute_scale_factor", "True");
    test.ExpectOutputs({Tensor::From(std::span<const float>(expected),
                                     {1, 1, static_cast<int64_t>(expected.size())})});
  };
  // From torch: F.interpolate(torch.arange(7.)[None, None], …).
  expect("nearest", "size", "(5)", false, {0, 1, 2, 4, 5});
  expect("nearest-exact", "size", "(5)", false, {0, 2, 3, 4, 6});
  expect("nearest", "scale_factor", "1.7", false, {0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5});
  expect("nearest", "scale_factor", "1.7", true, {0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 6});
  expect("nearest-exact", "scale_factor", "(1.7)", false, {0, 0, 1, 2, 2, 3, 3, 4, 5, 5, 6});
  expect("area", "size", "(3)", false, {1, 3, 5});
  expect("linear", "scale_factor", "(1.7)", false,
         {0, 0.382352978f, 0.970588326f, 1.55882359f, 2.14705896f, 2.73529434f, 3.32352948f,
          3.91176486f, 4.5f, 5.08823538f, 5.67647076f});
  expect("linear", "scale_factor", "(1.7)", true,
         {0, 0.454545438f, 1.090909f, 1.72727275f, 2.36363626f, 3, 3.63636351f, 4.27272701f,
          4.909091f, 5.5454545f, 6});
}

TEST(Interpolate, SizesAreRoundedDown) {
  // 86 * 2.97674394 is just below 256.
  const std::vector<Tensor> got = OperatorCase("nn.UpsamplingNearest2d")
                                      .Param("scale_factor", "(2.97674394,2.97674394)")
                                      .Param("size", "None")
                                      .Input(RandomTensor(DType::kF32, {1, 1, 86, 2}))
                                      .Run();
  EXPECT_EQ(got[0].shape(), (Shape{1, 1, 255, 5}));
}

TEST(Interpolate, EveryNameHasItsDefaults) {
  const Tensor x = RandomTensor(DType::kF64, {1, 2, 3, 4});
  const auto expect = [&](const std::string& type, const std::string& mode, bool align) {
    SCOPED_TRACE(type);
    OperatorCase(type)
        .Param("size", "(6,8)")
        .Input(x)
        .ExpectOutputs({Resized(x, mode, {6, 8}, {}, align)});
    OperatorCase(type)
        .Param("size", "None")
        .Param("scale_factor", "2.0")
        .Input(x)
        .ExpectOutputs({Resized(x, mode, {6, 8}, {2, 2}, align)});
  };
  for (const char* type : {"F.interpolate", "F.upsample", "nn.Upsample", "F.upsample_nearest",
                           "nn.UpsamplingNearest2d"}) {
    expect(type, "nearest", false);
  }
  for (const char* type : {"F.upsample_bilinear", "nn.UpsamplingBilinear2d"}) {
    expect(type, "bilinear", true);
  }
}

TEST(Interpolate, TakesSizesFromTheGraph) {
  const Tensor x = RandomTensor(DType::kF64, {1, 2, 3, 4});
  OperatorCase("F.interpolate")
      .Input(x, "input")
      .Input(Value(Value::List{Value(6), Value(8)}), "size")
      .ExpectOutputs({Resized(x, "nearest", {6, 8}, {}, false)});
  // What pnnx leaves of nearest-exact: input, output_size, scales.
  OperatorCase("aten::_upsample_nearest_exact2d")
      .Input(x)
      .Input(Value(Value::List{Value(6), Value(8)}))
      .Input(Value())
      .Input(Value())
      .ExpectOutputs({Resized(x, "nearest-exact", {6, 8}, {}, false)});
  OperatorCase("aten::upsample_nearest1d")
      .Input(RangeTensor(DType::kF32, {1, 1, 7}))
      .Input(Value(Value::List{Value(11)}))
      .Input(Value(1.7))
      .ExpectOutputs({Tensor::From<float>({0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5}, {1, 1, 11})});
}

TEST(Interpolate, NearestTakesBytes) {
  const Tensor x = Tensor::From<uint8_t>({1, 2, 3, 4}, {1, 1, 2, 2});
  OperatorCase("F.interpolate")
      .Param("size", "(2,4)")
      .Input(x)
      .ExpectOutputs({Tensor::From<uint8_t>({1, 1, 2, 2, 3, 3, 4, 4}, {1, 1, 2, 4})});
  OperatorCase("F.interpolate")
      .Param("mode", "area")
      .Param("size", "(2,4)")
      .Input(x)
      .ExpectError(ErrorCode::kUnsupported, "mode area does not take dtype u8");
}

TEST(Interpolate, RoundsBytesAfterEachAxis) {
  const Tensor x = Tensor::From<uint8_t>({0, 255, 7, 100, 50, 200}, {1, 1, 2, 3});
  const auto expect = [&](const char* mode, const char* size, bool corners, bool antialias,
                          const Tensor& want) {
    OperatorCase("F.interpolate")
        .Param("mode", mode)
        .Param("size", size)
        .Param("align_corners", corners ? "True" : "False")
        .Param("antialias", antialias ? "True" : "False")
        .Input(x)
        .ExpectOutputs({want});
  };
  const auto bytes = [](std::initializer_list<uint8_t> values, Shape shape) {
    return Tensor::From<uint8_t>(values, shape);
  };
  const Shape large{1, 1, 3, 5};
  expect("bilinear", "(3,5)", false, false,
         bytes({0, 102, 255, 106, 7, 50, 91, 153, 123, 104, 100, 80, 50, 140, 200}, large));
  expect("bicubic", "(3,5)", false, false,
         bytes({0, 121, 255, 121, 0, 53, 94, 153, 130, 107, 114, 66, 32, 139, 233}, large));
  expect("bicubic", "(3,5)", true, false,
         bytes({0, 151, 255, 155, 7, 50, 106, 153, 138, 104, 100, 61, 50, 120, 200}, large));
  expect("bilinear", "(1,2)", false, true, bytes({89, 122}, {1, 1, 1, 2}));
  expect("bicubic", "(3,2)", false, true, bytes({101, 101, 88, 125, 74, 149}, {1, 1, 3, 2}));
}

TEST(Interpolate, WorksOnAnEmptyBatch) {
  for (const char* mode : {"nearest", "bilinear", "area", "bicubic"}) {
    OperatorCase("F.interpolate")
        .Param("mode", mode)
        .Param("size", "(3,3)")
        .Input(Tensor(DType::kF32, {0, 2, 3, 4}))
        .ExpectOutputs({Tensor(DType::kF32, {0, 2, 3, 3})});
  }
}

TEST(Interpolate, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {1, 2, 3, 4});
  const auto expect = [&](const std::string& mode, const std::string& key, const std::string& value,
                          std::string_view message) {
    OperatorCase("F.interpolate")
        .Param("mode", mode)
        .Param(key, value)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect("nearest", "size", "None", "expected size or scale_factor");
  expect("nearest", "size", "(0,3)", "spatial extents must be above zero");
  expect("nearest", "size", "(-1,3)", "spatial extents must be above zero");
  expect("nearest", "size", "(1,2,3)", "size has 3 values for 2 spatial axes");
  expect("nearest", "scale_factor", "(1.0,2.0,3.0)", "scale_factor has 3 values");
  expect("nearest", "scale_factor", "0.1", "spatial extents must be above zero");
  expect("nearest", "scale_factor", "0.0", "is not above zero");
  expect("nearest", "scale_factor", "-2.0", "is not above zero");
  expect("nearest", "scale_factor", "nan", "is not above zero");
  expect("nearest", "scale_factor", "inf", "is too large");
  expect("nearest", "scale_factor", "1e30", "is too large");
  expect("nearest", "size", "(4000000000000,4000000000000)", "too many elements");
  expect("linear", "size", "3", "mode linear takes an input of rank 3");
  expect("trilinear", "size", "3", "mode trilinear takes an input of rank 5");
  OperatorCase("F.interpolate")
      .Param("mode", "nearest")
      .Param("size", "3")
      .Param("align_corners", "True")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "align_corners=True does not go with mode nearest");
  OperatorCase("F.interpolate")
      .Param("mode", "lanczos")
      .Param("size", "3")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "must be one of");
  OperatorCase("F.interpolate")
      .Param("size", "3")
      .Input(Tensor(DType::kI64, {1, 1, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype i64");
  OperatorCase("F.interpolate")
      .Param("size", "3")
      .Param("antialias", "True")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "antialias=True takes mode bilinear or bicubic");
}

}  // namespace
}  // namespace oort::testing
