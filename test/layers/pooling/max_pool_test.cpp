// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pooling_reference.h"

namespace oort::testing {
namespace {

double MaxOf(const PoolWindow& window) {
  return window.values.empty() ? -std::numeric_limits<double>::infinity()
                               : window.values[Best(window)];
}

OperatorCase MaxCase(const std::string& prefix, const PoolSpec& spec, const Tensor& x) {
  return spec.Case(prefix).Param("dilation", PoolSpec::Text(spec.dilation)).Input(x);
}

void ExpectMax(const Tensor& x, const PoolSpec& spec) {
  SCOPED_TRACE("input " + x.ToString() + ", kernel " + PoolSpec::Text(spec.kernel) + ", stride " +
               PoolSpec::Text(spec.stride) + ", pad " + PoolSpec::Text(spec.pad) + ", dilation " +
               PoolSpec::Text(spec.dilation));
  MaxCase("F.max_pool", spec, x).ExpectLike([&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{Pooled<double>(in[0], spec, MaxOf)};
  });
  MaxCase("nn.MaxPool", spec, x)
      .Param("return_indices", "True")
      .Outputs(2)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{
            Pooled<double>(in[0], spec, MaxOf),
            Pooled<int64_t>(in[0], spec, [](const PoolWindow& w) { return w.indices[Best(w)]; })};
      });
}

TEST(MaxPool, TakesAnyWindow) {
  const Shape shapes[] = {{3, 31}, {3, 12, 19}, {2, 7, 9, 11}};
  for (int rank = 1; rank <= 3; ++rank) {
    const Tensor x = RandomTensor(DType::kF32, shapes[rank - 1], 7);
    for (const PoolSpec& spec :
         {Uniform(rank, 1, 1, 0), Uniform(rank, 2, 2, 0), Uniform(rank, 3, 1, 1),
          Uniform(rank, 3, 2, 1), Uniform(rank, 3, 2, 1, 1, true), Uniform(rank, 4, 3, 2, 1, true),
          Uniform(rank, 3, 1, 1, 2), Uniform(rank, 2, 2, 1, 3, true), Uniform(rank, 5, 1, 2)}) {
      ExpectMax(x, spec);
    }
  }
}

TEST(MaxPool, TakesAxesThatDiffer) {
  ExpectMax(RandomTensor(DType::kF32, {2, 3, 13, 17}), {{4, 5}, {1, 2}, {1, 2}, {1, 2}, true});
  ExpectMax(RandomTensor(DType::kF32, {1, 2, 6, 9, 14}),
            {{1, 2, 3}, {2, 1, 2}, {0, 1, 1}, {1, 2, 1}, false});
}

TEST(MaxPool, WorksOnEdgeWidths) {
  for (int64_t width : EdgeLengths()) {
    if (width == 0) continue;
    const Tensor x = RandomTensor(DType::kF32, {2, 3, width}, 3);
    for (const PoolSpec& spec :
         {PoolSpec{{2, 2}, {2, 2}, {1, 1}, {1, 1}, true}, Uniform(2, 3, 1, 1),
          PoolSpec{{3, 3}, {2, 2}, {1, 1}, {1, 1}, false}}) {
      ExpectMax(x, spec);
    }
  }
}

TEST(MaxPool, PassesNanOn) {
  Tensor x = RandomTensor(DType::kF32, {1, 9, 40});
  x.data<float>()[3 * 40 + 5] = NAN;
  x.data<float>()[8 * 40 + 39] = NAN;
  x.data<float>()[0] = -INFINITY;
  ExpectMax(x, Uniform(2, 3, 2, 1));
  ExpectMax(x, Uniform(2, 2, 1, 0));
}

TEST(MaxPool, GivesMinusInfinityWhereAWindowIsAllPadding) {
  // Taps at -1 and 4 around four elements.
  OperatorCase("F.max_pool1d")
      .Param("kernel_size", "(2)")
      .Param("stride", "(1)")
      .Param("padding", "(1)")
      .Param("dilation", "(5)")
      .Input(Tensor::From<float>({1, 2, 3, 4}, {1, 4}))
      .ExpectOutputs({Tensor::From<float>({-INFINITY}, {1, 1})});
}

TEST(MaxPool, StrideDefaultsToTheKernel) {
  const Tensor x = Tensor::From<float>({1, 5, 2, 4, 3, 9, 8}, {1, 7});
  const Tensor expected = Tensor::From<float>({5, 9}, {1, 2});
  OperatorCase("F.max_pool1d").Param("kernel_size", "3").Input(x).ExpectOutputs({expected});
  OperatorCase("F.max_pool1d")
      .Param("kernel_size", "(3)")
      .Param("stride", "None")
      .Input(x, "input")
      .ExpectOutputs({expected});
}

TEST(MaxPool, TakesIntegers) {
  for (DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kI32, DType::kI64}) {
    const Tensor x = RandomTensor(dtype, {2, 6, 7}, 5, -100, 100);
    const PoolSpec spec = Uniform(2, 3, 2, 1);
    const Tensor wide = x.To(DType::kF64);
    MaxCase("F.max_pool", spec, x).ExpectOutputs({Pooled<double>(wide, spec, MaxOf).To(dtype)});
  }
}

TEST(MaxPool, WorksOnAnEmptyBatch) {
  OperatorCase("nn.MaxPool2d")
      .Param("kernel_size", "(2,2)")
      .Input(Tensor(DType::kF32, {0, 3, 4, 6}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 3, 2, 3})});
}

TEST(MaxPool, WindowsFarLargerThanTheInput) {
  const Tensor x = RandomTensor(DType::kF32, {1, 3, 3});
  OperatorCase("F.max_pool2d")
      .Param("kernel_size", "2147483647")
      .Param("stride", "2147483647")
      .Param("padding", "1073741823")
      .Param("ceil_mode", "True")
      .Input(x)
      .ExpectLike([](const std::vector<Tensor>& in) {
        const double* values = in[0].data<double>();
        return std::vector<Tensor>{
            Tensor::From<double>({*std::max_element(values, values + 9)}, {1, 1, 1})};
      });
}

TEST(MaxPool, RefusesWrongParameters) {
  const Tensor x = RandomTensor(DType::kF32, {1, 8, 8});
  const auto expect = [&](const std::string& key, const std::string& value,
                          std::string_view message) {
    OperatorCase("F.max_pool2d")
        .Param("kernel_size", "(3,3)")
        .Param(key, value)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect("stride", "(0,1)", "stride 0 is not in [1, ");
  expect("stride", "-1", "stride -1 is not in [1, ");
  expect("kernel_size", "(0,3)", "kernel_size 0 is not in [1, ");
  expect("kernel_size", "9223372036854775807", "kernel_size 9223372036854775807 is not in [1, ");
  expect("dilation", "(1,0)", "dilation 0 is not in [1, ");
  expect("padding", "-1", "padding -1 is not in [0, ");
  expect("padding", "(2,1)", "padding 2 is over half the kernel size 3");
  expect("kernel_size", "9", "no window fits");
  expect("dilation", "4", "no window fits");
  expect("dilation", "2147483647", "no window fits");
  OperatorCase("F.max_pool2d")
      .Param("kernel_size", "(3,3,3)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "expected 2 elements");
  OperatorCase("F.max_pool2d").Input(x).ExpectError(ErrorCode::kInvalidModel, "'kernel_size'");
  OperatorCase("F.max_pool2d")
      .Param("kernel_size", "2")
      .Input(x)
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidModel, "two outputs need return_indices=True");
}

TEST(MaxPool, RefusesWrongInputs) {
  const auto expect = [](const Tensor& x, std::string_view message) {
    OperatorCase("nn.MaxPool2d")
        .Param("kernel_size", "2")
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect(Tensor(DType::kF32, {4, 4}), "expected an input of rank 3 or 4, got (4,4)");
  expect(Tensor(DType::kF32, {1, 1, 1, 4, 4}), "expected an input of rank 3 or 4");
  expect(Tensor(DType::kF32, {1, 2, 0, 4}), "expected spatial extents above zero");
  expect(Tensor(DType::kBool, {1, 4, 4}), "has dtype bool");
  expect(Tensor(DType::kC64, {1, 4, 4}), "has dtype c64");
}

}  // namespace
}  // namespace oort::testing
