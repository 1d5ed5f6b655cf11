// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "test/kit/every_float.h"
#include "test/layers/attention/attention_reference.h"

namespace oort::testing {
namespace {

struct JointCase {
  Shape leading;
  int64_t length, heads, width;

  Shape Rows(int64_t columns) const {
    Shape shape = leading;
    shape.Append(length);
    shape.Append(columns);
    return shape;
  }
};

/// One head of one part (query, key or value) after the other, each (length, width).
std::vector<double> HeadsOf(const JointCase& c, const Tensor& joint, int64_t part) {
  const Tensor exact = joint.To(DType::kF64);
  const int64_t all = c.heads * c.width;
  std::vector<double> rows;
  for (int64_t batch = 0; batch < c.leading.elements(); ++batch) {
    for (int64_t head = 0; head < c.heads; ++head) {
      for (int64_t row = 0; row < c.length; ++row) {
        const double* from = exact.data<double>() + (batch * c.length + row) * 3 * all;
        from += part * all + head * c.width;
        rows.insert(rows.end(), from, from + c.width);
      }
    }
  }
  return rows;
}

Tensor ExpectedOfJoint(const JointCase& c, const Tensor& joint) {
  const Sizes sizes{c.leading.elements() * c.heads, c.length, c.length, c.width, c.width};
  const std::vector<double> by_head =
      Attend(sizes, HeadsOf(c, joint, 0).data(), HeadsOf(c, joint, 1).data(),
             HeadsOf(c, joint, 2).data(), 1 / std::sqrt(static_cast<double>(c.width)), nullptr);
  std::vector<double> rows(by_head.size());
  size_t from = 0;
  for (int64_t matrix = 0; matrix < sizes.count; ++matrix) {
    for (int64_t row = 0; row < c.length; ++row) {
      const int64_t first = (matrix / c.heads * c.length + row) * c.heads * c.width;
      for (int64_t i = 0; i < c.width; ++i) {
        rows[static_cast<size_t>(first + matrix % c.heads * c.width + i)] = by_head[from++];
      }
    }
  }
  return ToF32(rows, c.Rows(c.heads * c.width));
}

TEST(JointAttention, IsAttentionOfEachHeadsColumns) {
  for (const JointCase& c : {JointCase{{}, 5, 1, 4},
                             {{2}, 7, 3, 5},
                             {{2, 3}, 1, 2, 8},
                             {{1}, 50, 4, 16},
                             {{0}, 5, 2, 4}}) {
    const Tensor joint = RandomTensor(DType::kF32, c.Rows(3 * c.heads * c.width), 1, -1, 1);
    OperatorCase("oort.JointAttention")
        .Input(joint)
        .Param("heads", std::to_string(c.heads))
        .ExpectOutputs({ExpectedOfJoint(c, joint)});
  }
}

TEST(JointAttention, RefusesRowsThatAreNotOfThreeTimesTheHeads) {
  for (const Shape& shape : {Shape{5, 16}, Shape{24}, Shape{5, 0}}) {
    OperatorCase("oort.JointAttention")
        .Input(RandomTensor(DType::kF32, shape, 1))
        .Param("heads", "4")
        .ExpectError(ErrorCode::kInvalidArgument, "expected rows of queries, keys and values");
  }
}

}  // namespace
}  // namespace oort::testing
