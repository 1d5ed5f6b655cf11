// SPDX-License-Identifier: MIT
#include "layers/index/index_plan.h"

#include <algorithm>
#include <cstring>

#include "core/dispatch.h"
#include "layers/index/index_list.h"
#include "layers/shape/slice_range.h"
#include "layers/shape/strided_copy.h"

namespace oort {
namespace {

/// Moves blocks of `block` bytes between x (at `offsets`, in bytes) and dense memory.
template <bool kGather, size_t kBlock>
void MoveBlocks(std::conditional_t<kGather, const std::byte*, std::byte*> x,
                std::span<const int64_t> offsets, size_t block, size_t item,
                std::conditional_t<kGather, std::byte*, const std::byte*> dense) {
  const size_t bytes = kBlock != 0 ? kBlock : block;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto at = x + offsets[i] * static_cast<int64_t>(item);
    if constexpr (kGather) {
      std::memcpy(dense + i * bytes, at, bytes);
    } else {
      std::memcpy(at, dense + i * bytes, bytes);
    }
  }
}

/// Single elements are the usual case, so they get loops of their own.
template <bool kGather, typename X, typename Dense>
void MoveAnyBlocks(X x, std::span<const int64_t> offsets, size_t block, size_t item, Dense dense) {
  switch (block) {
    case 0: return;
    case 1: return MoveBlocks<kGather, 1>(x, offsets, block, item, dense);
    case 2: return MoveBlocks<kGather, 2>(x, offsets, block, item, dense);
    case 4: return MoveBlocks<kGather, 4>(x, offsets, block, item, dense);
    case 8: return MoveBlocks<kGather, 8>(x, offsets, block, item, dense);
    case 16: return MoveBlocks<kGather, 16>(x, offsets, block, item, dense);
    default: return MoveBlocks<kGather, 0>(x, offsets, block, item, dense);
  }
}

/// The elements of an index as rows along its last axis, and where they point in a dense x: a
/// scalar counts as a vector of one.
struct GatherRows {
  GatherRows(const Shape& x, const Shape& index, int dim) : dense(x), shape(index), axis(dim) {
    const int rank = x.rank();
    length = index.rank() == 0 ? index.elements() : index[index.rank() - 1];
    count = length == 0 ? 0 : index.elements() / length;
    extent = rank == 0 ? 1 : x[dim];
    stride = rank == 0 ? 1 : dense[dim].stride;
    step = rank == 0 || dim == rank - 1 ? 0 : 1;
  }
  /// The place that the coordinates of a row stand for, without the indexed axis.
  int64_t Base(int64_t row) const {
    int64_t base = 0;
    for (int i = std::min(shape.rank(), dense.rank()) - 1; i-- > 0;) {
      if (i != axis) base += row % shape[i] * dense[i].stride;
      row /= shape[i];
    }
    return base;
  }
  int64_t Offset(int64_t base, int64_t k, int64_t index) const {
    CheckIndex(index, extent);
    return base + index * stride + k * step;
  }

  Strided dense;
  Shape shape;
  int axis;
  int64_t length, count, extent, stride, step;
};

/// Copies the elements that `ids` name along one row.
template <size_t kItem>
void GatherRow(const GatherRows& rows, int64_t base, const int64_t* ids, const std::byte* x,
               std::byte* to) {
  constexpr int64_t kSize = kItem;
  // Locals: for all the compiler knows, bytes written through `to` could be those of `rows`.
  const int64_t length = rows.length, extent = rows.extent;
  const int64_t stride = rows.stride * kSize, step = rows.step * kSize;
  const std::byte* from = x + base * kSize;
  const auto copy = [&](auto offset) {
    for (int64_t k = 0; k < length; ++k) {
      const int64_t id = ids[k];
      CheckIndex(id, extent);
      std::memcpy(to + k * kSize, from + offset(id, k), kItem);
    }
  };
  if (stride == kSize && step == 0) return copy([](int64_t id, int64_t) { return id * kSize; });
  copy([stride, step](int64_t id, int64_t k) { return id * stride + k * step; });
}

/// Indexed axes side by side keep their place in the result; otherwise they come first. Gives
/// everything but the table.
IndexPlan Outline(const Shape& x, std::span<const IndexedAxis> indexed) {
  IndexPlan plan;
  const int count = static_cast<int>(indexed.size());
  const bool adjacent = count > 0 && indexed.back().axis - indexed.front().axis == count - 1;
  const int first = count == 0 ? x.rank() : adjacent ? indexed.front().axis : 0;
  plan.outer_count = x.Product(0, first);
  plan.outer_stride = x.Product(first, x.rank());
  plan.inner = Strided(x);
  for (int i = 0; i < first; ++i) plan.inner = plan.inner.Selected(0, 0);
  int dropped = first;
  Shape shape;
  for (const IndexedAxis& index : indexed) {
    plan.inner = plan.inner.Selected(index.axis - dropped++, 0);
    shape = BroadcastShapes(shape, index.indices.shape());
  }
  plan.indexed = shape;
  for (int i = 0; i < first; ++i) plan.result.Append(x[i]);
  for (int64_t extent : shape) plan.result.Append(extent);
  for (const Strided::Axis& axis : plan.inner.axes()) plan.result.Append(axis.extent);
  return plan;
}

/// The elements of `index`, repeated to the shape that all indices broadcast to.
std::vector<int64_t> BroadcastIndices(const Tensor& index, const Shape& shape) {
  const Tensor wide = index.To(DType::kI64);
  std::vector<int64_t> indices(static_cast<size_t>(shape.elements()));
  CopyStrided(Context(1, {}), sizeof(int64_t), wide.raw(), Strided(index.shape()).Broadcast(shape),
              reinterpret_cast<std::byte*>(indices.data()));
  return indices;
}

}  // namespace

std::vector<int64_t> IndexPlan::AllOffsets() const {
  const Shape shape = inner.shape();
  const int64_t inner_count = shape.elements();
  std::vector<int64_t> inner_offsets;
  inner_offsets.reserve(static_cast<size_t>(inner_count));
  for (int64_t i = 0; i < inner_count; ++i) {
    int64_t rest = i, offset = 0;
    for (int axis = inner.rank(); axis-- > 0;) {
      offset += rest % shape[axis] * inner[axis].stride;
      rest /= shape[axis];
    }
    inner_offsets.push_back(offset);
  }
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(result.elements()));
  for (int64_t o = 0; o < outer_count; ++o) {
    for (int64_t start : table) {
      for (int64_t offset : inner_offsets) offsets.push_back(o * outer_stride + start + offset);
    }
  }
  return offsets;
}

std::vector<int64_t> ReadIndices(const Tensor& tensor) {
  const Tensor wide = tensor.To(DType::kI64);
  const std::span<const int64_t> elements = wide.span<int64_t>();
  return {elements.begin(), elements.end()};
}

void ThrowIndex(int64_t index, int64_t extent) {
  throw Error(ErrorCode::kInvalidArgument, "index " + std::to_string(index) +
                                               " is out of range for an axis of " +
                                               std::to_string(extent));
}

IndexPlan PlanSelect(const Shape& x, int dim, std::vector<int64_t> indices) {
  IndexPlan plan;
  plan.result = x;
  plan.result[dim] = static_cast<int64_t>(indices.size());
  Shape inner;
  for (int i = dim + 1; i < x.rank(); ++i) inner.Append(x[i]);
  plan.inner = Strided(inner);
  plan.outer_count = x.Product(0, dim);
  const int64_t stride = inner.elements();
  plan.outer_stride = stride * x[dim];
  for (int64_t& index : indices) {
    CheckIndex(index, x[dim]);
    index *= stride;
  }
  plan.indexed = {static_cast<int64_t>(indices.size())};
  plan.table = std::move(indices);
  return plan;
}

Shape IndexedShape(const Shape& x, const Value::List& indices) {
  return Outline(x, ResolveIndices(x, indices)).result;
}

IndexPlan PlanIndex(const Shape& x, const Value::List& indices) {
  const std::vector<IndexedAxis> indexed = ResolveIndices(x, indices);
  IndexPlan plan = Outline(x, indexed);
  plan.table.assign(static_cast<size_t>(plan.indexed.elements()), 0);
  const Strided dense(x);
  for (const IndexedAxis& index : indexed) {
    const std::vector<int64_t> along = BroadcastIndices(index.indices, plan.indexed);
    for (size_t i = 0; i < along.size(); ++i) {
      plan.table[i] += NormalizeIndex(along[i], x[index.axis]) * dense[index.axis].stride;
    }
  }
  return plan;
}

std::vector<int64_t> PlanGather(const Shape& x, const Tensor& index, int dim) {
  std::vector<int64_t> offsets = ReadIndices(index);
  const GatherRows rows(x, index.shape(), dim);
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t base = rows.Base(row);
    for (int64_t k = 0; k < rows.length; ++k) {
      int64_t& offset = offsets[static_cast<size_t>(row * rows.length + k)];
      offset = rows.Offset(base, k, offset);
    }
  }
  return offsets;
}

void GatherElements(const Context& context, const Tensor& x, const Tensor& index, int dim,
                    Tensor& output) {
  const Tensor wide = index.To(DType::kI64);
  const GatherRows rows(x.shape(), index.shape(), dim);
  const auto gather = [&](auto item) {
    constexpr size_t kItem = decltype(item)::value;
    const int64_t grain = 16384 / std::max<int64_t>(rows.length, 1) + 1;
    context.ParallelFor(rows.count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * rows.length;
        GatherRow<kItem>(rows, rows.Base(row), wide.data<int64_t>() + at, x.raw(),
                         output.raw() + at * int64_t{kItem});
      }
    });
  };
  switch (ItemSize(x.dtype())) {
    case 1: return gather(std::integral_constant<size_t, 1>{});
    case 2: return gather(std::integral_constant<size_t, 2>{});
    case 4: return gather(std::integral_constant<size_t, 4>{});
    case 8: return gather(std::integral_constant<size_t, 8>{});
    default: return gather(std::integral_constant<size_t, 16>{});
  }
}

void CopyIndexed(const Context& context, size_t item, const std::byte* x, const IndexPlan& plan,
                 std::byte* result) {
  const int64_t size = static_cast<int64_t>(item);
  const int64_t block = plan.inner.shape().elements() * size;
  const int64_t count = static_cast<int64_t>(plan.table.size());
  if (block == 0 || count == 0) return;
  const bool dense = plan.inner.IsDense();
  const int64_t rows = plan.outer_count * count;
  context.ParallelFor(rows, 64 * 1024 / block + 1, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t outer = begin / count, first = begin % count;
      const int64_t length = std::min(count - first, end - begin);
      const std::byte* from = x + outer * plan.outer_stride * size;
      std::byte* to = result + begin * block;
      const std::span<const int64_t> offsets(plan.table.data() + first,
                                             static_cast<size_t>(length));
      if (dense) {
        MoveAnyBlocks<true>(from, offsets, static_cast<size_t>(block), item, to);
      } else {
        for (int64_t offset : offsets) {
          CopyStrided(Context(1, {}), item, from + offset * size, plan.inner, to);
          to += block;
        }
      }
      begin += length;
    }
  });
}

void ScatterIndexed(size_t item, const std::byte* values, const IndexPlan& plan, std::byte* x) {
  if (!plan.inner.IsDense()) {
    MoveAnyBlocks<false>(x, plan.AllOffsets(), item, item, values);
    return;
  }
  const size_t block = static_cast<size_t>(plan.inner.shape().elements()) * item;
  if (block == 0) return;
  for (int64_t outer = 0; outer < plan.outer_count; ++outer) {
    MoveAnyBlocks<false>(x + outer * plan.outer_stride * static_cast<int64_t>(item), plan.table,
                         block, item, values);
    values += plan.table.size() * block;
  }
}

void AddAt(std::span<const int64_t> offsets, const Tensor& values, Tensor& x) {
  VisitDType(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* source = values.data<T>();
    T* target = x.data<T>();
    for (size_t i = 0; i < offsets.size(); ++i) {
      T& sum = target[offsets[i]];
      if constexpr (kIsHalf<T>) {
        sum = T(static_cast<float>(sum) + static_cast<float>(source[i]));
      } else if constexpr (std::is_same_v<T, bool>) {
        sum = sum || source[i];
      } else if constexpr (std::is_integral_v<T>) {
        sum = static_cast<T>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(source[i]));
      } else {
        sum += source[i];
      }
    }
  });
}

}  // namespace oort
