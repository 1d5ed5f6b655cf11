// SPDX-License-Identifier: MIT
// Reductions by the definition: every output lists the elements that it is made of.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

struct Elements {
  std::vector<double> values;  ///< in row-major order of the axes that go
};

/// `axes` are not negative; all of them if there are none.
template <typename Number = double>
Tensor Reduced(const Tensor& x, std::vector<int> axes, bool keepdim,
               const std::function<Number(const Elements&)>& fold) {
  const Shape& shape = x.shape();
  if (axes.empty()) {
    for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  }
  const auto gone = [&](int axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  Shape out_shape, full;
  for (int i = 0; i < shape.rank(); ++i) {
    full.Append(gone(i) ? 1 : shape[i]);
    if (!gone(i) || keepdim) out_shape.Append(gone(i) ? 1 : shape[i]);
  }
  std::vector<Elements> groups(static_cast<size_t>(full.elements()));
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t at = 0, rest = i;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const int64_t inner = shape.Product(axis + 1, shape.rank());
      at = at * full[axis] + (gone(axis) ? 0 : rest / inner);
      rest %= inner;
    }
    groups[static_cast<size_t>(at)].values.push_back(x.data<double>()[i]);
  }
  Tensor y(kDTypeOf<Number>, out_shape);
  for (size_t i = 0; i < groups.size(); ++i) y.template data<Number>()[i] = fold(groups[i]);
  return y;
}

/// Shapes and axes that take every path: runs, columns, both, none, and axes of extent 1.
struct ReduceCase {
  Shape shape;
  std::vector<int> axes;
  std::string dim() const {
    if (axes.empty()) return "None";
    std::string text = "(";
    for (size_t i = 0; i < axes.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(axes[i]);
    return text + ")";
  }
};

inline std::vector<ReduceCase> ReduceCases() {
  std::vector<ReduceCase> cases = {
      {{2, 3, 16}, {}},
      {{2, 3, 16}, {0}},
      {{2, 3, 16}, {1}},
      {{2, 3, 16}, {2}},
      {{1, 5, 9, 11}, {2, 3}},
      {{4, 3, 5, 7, 6}, {0, 2, 4}},
      {{4, 3, 5, 7, 6}, {1, 3}},
      {{2, 1, 3, 1, 5}, {1, 2}},
      {{7}, {0}},
      {{}, {0}},
      {{}, {}},
      {{3, 1}, {1}},
      {{100, 70}, {0}},
      {{2, 100, 130}, {1}},
      {{3, 5000}, {1}},
      {{2, 0, 3}, {2}},
      {{2, 3, 0}, {0}},
      {{0, 4}, {1}},
  };
  for (int64_t length : EdgeLengths()) {
    if (length == 0) continue;
    cases.push_back({{3, length}, {1}});
    cases.push_back({{5, length}, {0}});
  }
  return cases;
}

/// Runs an operator over all cases, with and without keepdim.
template <typename Number = double>
void ExpectReduction(const std::string& type, const std::function<Number(const Elements&)>& fold,
                     Tolerance tolerance = {}) {
  for (const ReduceCase& c : ReduceCases()) {
    SCOPED_TRACE(c.shape.ToString() + " over " + c.dim());
    for (bool keepdim : {false, true}) {
      OperatorCase(type)
          .Param("dim", c.dim())
          .Param("keepdim", keepdim ? "True" : "False")
          .Input(RandomTensor(DType::kF32, c.shape, 17))
          .ExpectLike(
              [&](const std::vector<Tensor>& in) {
                return std::vector<Tensor>{Reduced<Number>(in[0], c.axes, keepdim, fold)};
              },
              tolerance);
    }
  }
}

/// What every reduction over axes refuses.
inline void ExpectReductionErrors(const std::string& type) {
  const auto expect = [&](const std::string& dim, std::string_view message) {
    OperatorCase(type)
        .Param("dim", dim)
        .Input(RandomTensor(DType::kF32, {2, 3}))
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect("(2)", "axis 2 is out of range for rank 2");
  expect("(-3)", "axis -3 is out of range for rank 2");
  expect("(0,-2)", "axis -2 is given twice");
  expect("9223372036854775807", "out of range");
}

}  // namespace oort::testing
