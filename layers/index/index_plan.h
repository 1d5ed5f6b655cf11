// SPDX-License-Identifier: MIT
// Reading and writing elements that index tensors name.
#pragma once

#include <vector>

#include "layers/shape/strided.h"
#include "oort/layer.h"

namespace oort {

inline constexpr DTypeSet kIndexTypes = DType::kI32 | DType::kI64;

/// Elements of a dense tensor x in the order of a result with axes (outer, indexed, inner):
/// result element (o, t, i) is x[o * outer_stride + table[t] + inner(i)].
struct IndexPlan {
  Shape result;
  Shape indexed;  ///< the part of it that the table stands for
  int64_t outer_count = 1;
  int64_t outer_stride = 0;
  std::vector<int64_t> table;
  Strided inner{Shape{}};

  /// The place in x of every element of the result.
  std::vector<int64_t> AllOffsets() const;
};

/// x.index_select(dim, indices): indices lie in [0, extent), which is checked.
IndexPlan PlanSelect(const Shape& x, int dim, std::vector<int64_t> indices);

/// x[indices] as torch's advanced indexing: each entry is None, an int, or a tensor or (nested)
/// list of integers or bools. Integers may be negative; throws where one is out of range.
IndexPlan PlanIndex(const Shape& x, const Value::List& indices);

/// The shape of x[indices]; elements are read from masks only.
Shape IndexedShape(const Shape& x, const Value::List& indices);

/// For each element of `index`, the place in a tensor of shape `x` that has the same coordinates,
/// except along `dim`, where the element itself is the coordinate. Throws where it is outside.
std::vector<int64_t> PlanGather(const Shape& x, const Tensor& index, int dim);

/// output = those elements of x.
void GatherElements(const Context& context, const Tensor& x, const Tensor& index, int dim,
                    Tensor& output);

/// The elements of an integer tensor as i64.
std::vector<int64_t> ReadIndices(const Tensor& tensor);
[[noreturn]] void ThrowIndex(int64_t index, int64_t extent);
/// Throws unless 0 <= index < extent: a negative index is a large one without its sign.
inline void CheckIndex(int64_t index, int64_t extent) {
  if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(extent)) ThrowIndex(index, extent);
}

/// result = x[plan], dense, for elements of `item` bytes.
void CopyIndexed(const Context& context, size_t item, const std::byte* x, const IndexPlan& plan,
                 std::byte* result);
/// x[plan] = values, dense. A place that is named twice keeps what was written last.
void ScatterIndexed(size_t item, const std::byte* values, const IndexPlan& plan, std::byte* x);
/// x[offsets[i]] += values[i], one after another.
void AddAt(std::span<const int64_t> offsets, const Tensor& values, Tensor& x);

}  // namespace oort
