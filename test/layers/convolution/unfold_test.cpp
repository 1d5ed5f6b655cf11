// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>

#include "oort/testing.h"

namespace oort::testing {
namespace {

struct Windows {
  std::array<int64_t, 2> kernel{1, 1}, dilation{1, 1}, padding{0, 0}, stride{1, 1};
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t Count(size_t axis, int64_t extent) const {
    return (extent + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] +
           1;
  }
  OperatorCase Case(const std::string& type) const {
    const auto text = [](const std::array<int64_t, 2>& pair) { return Shape(pair).ToString(); };
    OperatorCase test(type);
    test.Param("kernel_size", text(kernel)).Param("dilation", text(dilation));
    test.Param("padding", text(padding)).Param("stride", text(stride));
    return test;
  }
};

/// Calls visit(column element, image element) for all that lie in the image.
template <typename Visit>
void EachTap(const Windows& w, int64_t planes, int64_t height, int64_t width, Visit visit) {
  const int64_t rows = w.Count(0, height), columns = w.Count(1, width);
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t tap = 0; tap < w.taps(); ++tap)
      for (int64_t i = 0; i < rows * columns; ++i) {
        const int64_t y =
            i / columns * w.stride[0] - w.padding[0] + tap / w.kernel[1] * w.dilation[0];
        const int64_t x =
            i % columns * w.stride[1] - w.padding[1] + tap % w.kernel[1] * w.dilation[1];
        if (y < 0 || x < 0 || y >= height || x >= width) continue;
        visit((p * w.taps() + tap) * rows * columns + i, (p * height + y) * width + x);
      }
}

Tensor Unfolded(const Tensor& input, const Windows& w) {
  const Tensor x = input.To(DType::kF64);
  const Shape& s = x.shape();
  const int rank = s.rank();
  Shape shape(s.dims().first(static_cast<size_t>(rank - 2)));
  shape[rank - 3] *= w.taps();
  shape.Append(w.Count(0, s[rank - 2]) * w.Count(1, s[rank - 1]));
  Tensor y = Tensor::Zeros(DType::kF64, shape);
  EachTap(w, s.Product(0, rank - 2), s[rank - 2], s[rank - 1], [&](int64_t column, int64_t pixel) {
    y.data<double>()[column] = x.data<double>()[pixel];
  });
  return y.To(input.dtype());
}

Tensor Folded(const Tensor& x, const Windows& w, int64_t height, int64_t width) {
  Shape shape = x.shape();
  const int rank = shape.rank();
  shape[rank - 2] /= w.taps();
  shape[rank - 1] = height;
  shape.Append(width);
  Tensor y = Tensor::Zeros(DType::kF64, shape);
  EachTap(w, shape.Product(0, rank - 1), height, width, [&](int64_t column, int64_t pixel) {
    y.data<double>()[pixel] += x.data<double>()[column];
  });
  return y;
}

const std::vector<Windows>& AllWindows() {
  static const std::vector<Windows> windows = {
      {},
      {{3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {{2, 3}, {2, 1}, {0, 2}, {1, 2}},
      {{3, 2}, {1, 3}, {2, 3}, {3, 1}},
      {{1, 4}, {1, 2}, {5, 6}, {2, 3}},  // whole windows lie in the padding
  };
  return windows;
}

TEST(Unfold, TakesEveryWindow) {
  for (const Windows& w : AllWindows()) {
    for (const Shape& shape : {Shape{2, 3, 7, 9}, Shape{3, 6, 7}, Shape{1, 1, 5, 8}}) {
      for (const char* type : {"F.unfold", "nn.Unfold"}) {
        w.Case(type)
            .Input(RandomTensor(DType::kF32, shape))
            .ExpectLike([&](const std::vector<Tensor>& in) {
              return std::vector<Tensor>{Unfolded(in[0], w)};
            });
      }
    }
  }
}

TEST(Unfold, WorksOnEdgeWidths) {
  const Windows w{{1, 3}, {1, 1}, {0, 1}, {1, 1}};
  for (int64_t width : EdgeLengths()) {
    if (width == 0) continue;
    const Tensor x = RandomTensor(DType::kF32, {1, 1, width});
    w.Case("F.unfold").Input(x).ExpectOutputs({Unfolded(x, w)});
  }
}

TEST(Fold, AddsUpWhereWindowsOverlap) {
  for (const Windows& w : AllWindows()) {
    const int64_t height = 7, width = 9, count = w.Count(0, height) * w.Count(1, width);
    for (const Shape& shape : {Shape{2, 3 * w.taps(), count}, Shape{2 * w.taps(), count}}) {
      for (const char* type : {"F.fold", "nn.Fold"}) {
        // 16-bit sums are rounded at every step.
        w.Case(type)
            .Param("output_size", "(7,9)")
            .Input(RandomTensor(DType::kF32, shape))
            .ExpectLike(
                [&](const std::vector<Tensor>& in) {
                  return std::vector<Tensor>{Folded(in[0], w, height, width)};
                },
                {0.1, 0.02});
      }
    }
  }
}

TEST(Fold, IsExactInF32) {
  const Windows w{{3, 3}, {1, 1}, {1, 1}, {1, 1}};
  const Tensor x = RandomTensor(DType::kF32, {2, 18, 63});
  w.Case("F.fold")
      .Param("output_size", "(7,9)")
      .Input(x)
      .ExpectOutputs({Folded(x.To(DType::kF64), w, 7, 9).To(DType::kF32)});
}

TEST(Fold, TakesComplexNumbersAndSizesFromTheGraph) {
  using C = std::complex<float>;
  OperatorCase("F.fold")
      .Param("kernel_size", "(1,2)")
      .Input(Tensor::From<C>({C(1, 2), C(3, 4), C(5, 6), C(7, 8)}, {2, 2}))
      .Input(Value(Value::List{Value(1), Value(3)}), "output_size")
      .ExpectOutputs({Tensor::From<C>({C(1, 2), C(8, 10), C(7, 8)}, {1, 1, 3})});
}

TEST(Unfold, WorksOnAnEmptyBatch) {
  OperatorCase("F.unfold")
      .Param("kernel_size", "2")
      .Input(Tensor(DType::kF32, {0, 2, 3, 4}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 8, 6})});
  OperatorCase("F.fold")
      .Param("kernel_size", "2")
      .Param("output_size", "(3,4)")
      .Input(Tensor(DType::kF32, {0, 8, 6}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 2, 3, 4})});
}

TEST(Unfold, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {1, 2, 3, 4});
  const auto unfold = [&](const std::string& key, const std::string& value, const Tensor& input,
                          ErrorCode code, std::string_view message) {
    OperatorCase test("F.unfold");
    if (key != "kernel_size") test.Param("kernel_size", "2");
    test.Param(key, value).Input(input).ExpectError(code, message);
  };
  unfold("kernel_size", "0", x, ErrorCode::kInvalidModel, "kernel_size");
  unfold("stride", "0", x, ErrorCode::kInvalidModel, "stride");
  unfold("dilation", "(1,0)", x, ErrorCode::kInvalidModel, "dilation");
  unfold("padding", "-1", x, ErrorCode::kInvalidModel, "padding");
  unfold("kernel_size", "(4,1)", x, ErrorCode::kInvalidArgument, "padded image of at least 4");
  unfold("dilation", "2147483647", x, ErrorCode::kInvalidArgument, "padded image of at least");
  for (const char* name : {"kernel_size", "stride", "dilation", "padding"}) {
    unfold(name, "9223372036854775807", x, ErrorCode::kInvalidArgument, "is not in [");
  }
  unfold("padding", "2147483647", x, ErrorCode::kInvalidArgument, "overflows");
  unfold("stride", "1", Tensor(DType::kF32, {3, 4}), ErrorCode::kInvalidArgument,
         "input of rank 3 or 4");
  unfold("stride", "1", Tensor(DType::kF32, {1, 0, 3, 4}), ErrorCode::kInvalidArgument,
         "at least one channel");
  unfold("stride", "1", Tensor(DType::kF32, {1, 1, 0, 4}), ErrorCode::kInvalidArgument,
         "image of at least 1x1");
  unfold("stride", "1", Tensor(DType::kI64, {1, 1, 3, 4}), ErrorCode::kInvalidArgument,
         "has dtype i64");
}

TEST(Fold, RefusesWhatIsWrong) {
  const auto fold = [](const std::string& size, const Shape& shape, std::string_view message) {
    OperatorCase("F.fold")
        .Param("kernel_size", "2")
        .Param("output_size", size)
        .Input(Tensor::Zeros(DType::kF32, shape))
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  fold("(3,4)", {1, 8, 7}, "6 columns");
  fold("(3,4)", {1, 7, 6}, "multiple of 4 rows");
  fold("(3,4)", {1, 1, 8, 6}, "input of rank 2 or 3");
  fold("(3,4)", {0, 6}, "multiple of 4 rows");
  fold("(0,4)", {1, 8, 6}, "image of at least 1x1");
  fold("(-3,4)", {1, 8, 6}, "image of at least 1x1");
  fold("(1,4)", {1, 8, 6}, "padded image of at least 2");
  fold("(3,4,5)", {1, 8, 6}, "output_size of two numbers");
  fold("(2147483647,2147483647)", {0, 8, 6}, "columns");
}

}  // namespace
}  // namespace oort::testing
