// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "kit/sanitized.h"
#include "reduction_reference.h"

namespace oort::testing {
namespace {

/// Position of the first NaN, else of the first extreme.
template <bool kMax>
size_t Best(const Elements& all) {
  size_t best = 0;
  for (size_t i = 0; i < all.values.size(); ++i) {
    const double value = all.values[i], held = all.values[best];
    if (std::isnan(held)) break;
    if (std::isnan(value) || (kMax ? value > held : value < held)) best = i;
  }
  return best;
}
template <bool kMax>
double ValueOf(const Elements& all) {
  return all.values[Best<kMax>(all)];
}
template <bool kMax>
int64_t IndexOf(const Elements& all) {
  return static_cast<int64_t>(Best<kMax>(all));
}

TEST(Amax, TakesTheMaximumOverAnyAxes) { ExpectReduction("torch.amax", {ValueOf<true>}); }
TEST(Amin, TakesTheMinimumOverAnyAxes) { ExpectReduction("torch.amin", {ValueOf<false>}); }

TEST(Amax, RefusesWrongAxes) {
  for (const char* type : {"torch.amax", "torch.amin"}) ExpectReductionErrors(type);
}

template <bool kMax>
void ExpectAlongOneAxis() {
  for (const ReduceCase& c : ReduceCases()) {
    if (c.axes.size() > 1) continue;
    SCOPED_TRACE(c.shape.ToString() + " over " + c.dim());
    const Tensor x = RandomTensor(DType::kF32, c.shape, 3, -5, 5);
    // Rounded, so that there are ties.
    Tensor ties = x.To(DType::kI64).To(DType::kF32);
    for (bool tied : {false, true}) {
      const Tensor& input = tied ? ties : x;
      for (bool keepdim : {false, true}) {
        if (testing::TriesFewer() && tied != keepdim) continue;
        const std::string keep = keepdim ? "True" : "False";
        const auto indices = [&](const std::vector<Tensor>& in) {
          return Reduced<int64_t>(in[0], c.axes, keepdim, IndexOf<kMax>);
        };
        const auto values = [&](const std::vector<Tensor>& in) {
          return Reduced<double>(in[0], c.axes, keepdim, ValueOf<kMax>);
        };
        OperatorCase(kMax ? "torch.argmax" : "torch.argmin")
            .Param("dim", c.axes.empty() ? "None" : std::to_string(c.axes[0]))
            .Param("keepdim", keep)
            .Input(input)
            .ExpectLike(
                [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{indices(in)}; });
        if (c.axes.empty()) continue;
        OperatorCase test(kMax ? "torch.max" : "torch.min");
        test.Param("dim", std::to_string(c.axes[0])).Param("keepdim", keep).Input(input);
        test.ExpectLike(
            [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{values(in)}; });
        test.Outputs(2).ExpectLike([&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{values(in), indices(in)};
        });
      }
    }
  }
}

TEST(Max, GivesValuesAndPositions) { ExpectAlongOneAxis<true>(); }
TEST(Min, GivesValuesAndPositions) { ExpectAlongOneAxis<false>(); }

TEST(Max, WithoutAnAxisItIsOverAll) {
  const Tensor x = Tensor::From<float>({3, -7, 5, 1}, {2, 2});
  OperatorCase("torch.max").Input(x).ExpectOutputs({Tensor::Scalar(5.0f)});
  OperatorCase("torch.min").Input(x).ExpectOutputs({Tensor::Scalar(-7.0f)});
}

TEST(Max, TakesEveryDType) {
  for (DType dtype :
       {DType::kI8, DType::kU8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    const Tensor x = RandomTensor(dtype, {3, 5, 4}, 3, -100, 100), wide = x.To(DType::kF64);
    for (int axis = 0; axis < 3; ++axis) {
      const auto values = [&](auto fold) {
        return Reduced<double>(wide, {axis}, false, fold).To(dtype);
      };
      OperatorCase("torch.amax")
          .Param("dim", std::to_string(axis))
          .Input(x)
          .ExpectOutputs({values(ValueOf<true>)});
      OperatorCase("torch.min")
          .Param("dim", std::to_string(axis))
          .Input(x)
          .Outputs(2)
          .ExpectOutputs(
              {values(ValueOf<false>), Reduced<int64_t>(wide, {axis}, false, IndexOf<false>)});
    }
  }
}

TEST(Max, NanWinsAndInfinityCounts) {
  Tensor x = RandomTensor(DType::kF32, {3, 40});
  x.data<float>()[17] = NAN;
  x.data<float>()[33] = NAN;
  x.data<float>()[40] = -INFINITY;
  for (int64_t i = 80; i < 120; ++i) x.data<float>()[i] = -INFINITY;
  for (int axis : {0, 1}) {
    const Tensor wide = x.To(DType::kF64);
    OperatorCase test("torch.max");
    test.Param("dim", std::to_string(axis)).Input(x);
    const Tensor values = Reduced<double>(wide, {axis}, false, ValueOf<true>).To(DType::kF32);
    test.ExpectOutputs({values});
    test.Outputs(2).ExpectOutputs({values, Reduced<int64_t>(wide, {axis}, false, IndexOf<true>)});
  }
}

TEST(Max, RefusesWhatIsWrong) {
  const Tensor none(DType::kF32, {0, 3});
  for (const char* type :
       {"torch.amax", "torch.amin", "torch.max", "torch.min", "torch.argmax", "torch.argmin"}) {
    OperatorCase(type)
        .Param("dim", "0")
        .Input(none)
        .ExpectError(ErrorCode::kInvalidArgument, "none: input (0,3)");
    OperatorCase(type).Input(none).ExpectError(ErrorCode::kInvalidArgument, "none: input (0,3)");
    OperatorCase(type)
        .Input(Tensor(DType::kC64, {2}))
        .ExpectError(ErrorCode::kInvalidArgument, "has dtype c64");
  }
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("torch.argmax")
      .Param("dim", "(0,1)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "positions need a single axis");
  OperatorCase("torch.max")
      .Input(x)
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "two outputs need an axis");
  OperatorCase("torch.argmax")
      .Input(Tensor(DType::kBool, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype bool");
}

}  // namespace
}  // namespace oort::testing
