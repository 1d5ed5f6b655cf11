// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort {
namespace {

using testing::OperatorCase;
using testing::RandomTensor;

TEST(RotaryAngles, AreCosinesAndSines) {
  const Tensor frequencies = RandomTensor(DType::kF32, {5}, 3, 0, 1);
  Tensor positions(DType::kI64, {4});
  for (int64_t i = 0; i < 4; ++i) positions.data<int64_t>()[i] = i * i * 30;
  Tensor want(DType::kF32, {4, 2, 5});
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t i = 0; i < 5; ++i) {
      const float angle = static_cast<float>(t * t * 30) * frequencies.data<float>()[i];
      want.data<float>()[t * 10 + i] = static_cast<float>(1.5 * std::cos(double{angle}));
      want.data<float>()[t * 10 + 5 + i] = static_cast<float>(1.5 * std::sin(double{angle}));
    }
  }
  OperatorCase("oort.RotaryAngles")
      .Param("magnitude", "1.5")
      .Attribute("frequencies", frequencies)
      .Input(positions)
      .ExpectOutputs({want});
  // The sequence is longer than the context that the model was trained for.
  OperatorCase("oort.RotaryAngles")
      .Param("long_magnitude", "1.5")
      .Param("original_context", "100")
      .Attribute("frequencies", RandomTensor(DType::kF32, {5}, 4))
      .Attribute("long_frequencies", frequencies)
      .Input(positions)
      .ExpectOutputs({want});
  OperatorCase("oort.RotaryAngles")
      .Param("original_context", "100")
      .Attribute("frequencies", frequencies)
      .Input(positions)
      .ExpectError(ErrorCode::kInvalidModel, "long_frequencies");
}

/// Pair i of each head turned; elements behind the pairs stay.
Tensor TurnedBy(const Tensor& x, const Tensor& angles, int64_t head_dim, bool interleaved) {
  Tensor y = x.Clone();
  const int64_t pairs = angles.dim(2), width = x.dim(1);
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t head = 0; head < width; head += head_dim) {
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t first = t * width + head + (interleaved ? 2 * i : i);
        const int64_t second = first + (interleaved ? 1 : pairs);
        const double c = angles.data<float>()[(t * 2) * pairs + i];
        const double s = angles.data<float>()[(t * 2 + 1) * pairs + i];
        const double a = x.data<float>()[first], b = x.data<float>()[second];
        y.data<float>()[first] = static_cast<float>(a * c - b * s);
        y.data<float>()[second] = static_cast<float>(b * c + a * s);
      }
    }
  }
  return y;
}

TEST(Rotary, TurnsPairsOfQueriesAndKeys) {
  for (const auto& [head_dim, pairs] :
       {std::pair{2, 1}, {16, 8}, {16, 4}, {10, 5}, {64, 32}, {80, 37}}) {
    for (bool interleaved : {false, true}) {
      const Tensor q = RandomTensor(DType::kF32, {5, 3 * head_dim}, 1);
      const Tensor k = RandomTensor(DType::kF32, {5, head_dim}, 2);
      const Tensor angles = RandomTensor(DType::kF32, {5, 2, pairs}, 3);
      OperatorCase("oort.Rotary")
          .Param("head_dim", std::to_string(head_dim))
          .Param("interleaved", interleaved ? "True" : "False")
          .Input(q)
          .Input(k)
          .Input(angles)
          .Outputs(2)
          .ExpectOutputs({TurnedBy(q, angles, head_dim, interleaved),
                          TurnedBy(k, angles, head_dim, interleaved)});
    }
  }
}

TEST(Rotary, RefusesOtherShapes) {
  const auto run = [](Shape q, Shape k, Shape angles) {
    OperatorCase("oort.Rotary")
        .Param("head_dim", "8")
        .Input(Tensor(DType::kF32, q))
        .Input(Tensor(DType::kF32, k))
        .Input(Tensor(DType::kF32, angles))
        .Outputs(2)
        .ExpectError(ErrorCode::kInvalidArgument, "expected");
  };
  run({2, 16}, {2, 8}, {2, 2, 5});
  run({2, 16}, {2, 8}, {2, 1, 4});
  run({2, 16}, {3, 8}, {2, 2, 4});
  run({2, 17}, {2, 8}, {2, 2, 4});
}

}  // namespace
}  // namespace oort
