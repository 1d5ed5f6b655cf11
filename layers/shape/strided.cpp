// SPDX-License-Identifier: MIT
#include "layers/shape/strided.h"

#include <algorithm>
#include <utility>

#include "oort/error.h"

namespace oort {

Strided::Strided(const Shape& shape) : rank_(shape.rank()) {
  int64_t stride = 1;
  for (int i = rank_; i-- > 0;) {
    at(i) = {shape[i], stride};
    stride *= std::max<int64_t>(shape[i], 1);
  }
}

Strided Strided::Of(std::span<const Axis> axes, int64_t offset) {
  Strided view;
  view.offset_ = offset;
  for (const Axis& axis : axes) view.Insert(view.rank_, axis);
  return view;
}

Strided Strided::DenseLike(const Strided& other) {
  Strided dense = other;
  dense.offset_ = 0;
  int64_t stride = 1;
  for (int i = dense.rank_; i-- > 0;) {
    dense.at(i).stride = stride;
    stride *= std::max<int64_t>(dense[i].extent, 1);
  }
  return dense;
}

Shape Strided::shape() const {
  Shape shape;
  for (const Axis& axis : axes()) shape.Append(axis.extent);
  return shape;
}

bool Strided::IsEmpty() const {
  return std::any_of(axes().begin(), axes().end(), [](const Axis& a) { return a.extent == 0; });
}

bool Strided::IsDense() const {
  if (IsEmpty()) return true;
  int64_t stride = 1;
  for (int i = rank_; i-- > 0;) {
    const Axis& axis = axes_[static_cast<size_t>(i)];
    if (axis.extent == 1) continue;
    if (axis.stride != stride) return false;
    stride *= axis.extent;
  }
  return true;
}

Strided Strided::Permuted(std::span<const int> order) const {
  Strided result = *this;
  for (int i = 0; i < rank_; ++i) result.at(i) = (*this)[order[static_cast<size_t>(i)]];
  return result;
}

Strided Strided::Swapped(int a, int b) const {
  Strided result = *this;
  std::swap(result.at(a), result.at(b));
  return result;
}

Strided Strided::Sliced(int axis, int64_t start, int64_t length, int64_t step) const {
  Strided result = *this;
  if (length > 0) result.offset_ += start * (*this)[axis].stride;
  // With fewer than two elements the step is never taken, and might overflow.
  result.at(axis) = {length, length > 1 ? (*this)[axis].stride * step : (*this)[axis].stride};
  return result;
}

Strided Strided::Selected(int axis, int64_t index) const {
  Strided result = Sliced(axis, index, 1);
  result.Erase(axis);
  return result;
}

Strided Strided::Flipped(int axis) const {
  Strided result = *this;
  const Axis from = (*this)[axis];
  if (from.extent > 1) result.offset_ += (from.extent - 1) * from.stride;
  result.at(axis).stride = -from.stride;
  return result;
}

Strided Strided::Repeated(int axis, int64_t times) const {
  Strided result = *this;
  result.Insert(axis, {times, 0});
  return result;
}

Strided Strided::Split(int axis, int64_t outer, int64_t inner) const {
  Strided result = *this;
  const int64_t stride = (*this)[axis].stride;
  result.at(axis) = {outer, stride * inner};
  result.Insert(axis + 1, {inner, stride});
  return result;
}

Strided Strided::Diagonal(int64_t row, int64_t column, int64_t length) const {
  Strided result = *this;
  if (length > 0) result.offset_ += row * (*this)[0].stride + column * (*this)[1].stride;
  result.at(0) = {length, (*this)[0].stride + (*this)[1].stride};
  result.Erase(1);
  return result;
}

Strided Strided::Broadcast(const Shape& shape) const {
  Strided result = *this;
  while (result.rank_ < shape.rank()) result.Insert(0, {1, 0});
  for (int i = 0; i < shape.rank(); ++i) {
    if (result[i].extent != shape[i]) result.at(i) = {shape[i], 0};
  }
  return result;
}

void Strided::Insert(int axis, Axis value) {
  if (rank_ == kMaxAxes) throw Error(ErrorCode::kInvalidArgument, "a view has too many axes");
  std::move_backward(axes_.begin() + axis, axes_.begin() + rank_, axes_.begin() + rank_ + 1);
  at(axis) = value;
  ++rank_;
}

void Strided::Erase(int axis) {
  std::move(axes_.begin() + axis + 1, axes_.begin() + rank_, axes_.begin() + axis);
  --rank_;
}

bool BroadcastsTo(const Shape& from, const Shape& to) {
  const int added = to.rank() - from.rank();
  for (int i = 0; added >= 0 && i < from.rank(); ++i) {
    if (from[i] != 1 && from[i] != to[i + added]) return false;
  }
  return added >= 0;
}

}  // namespace oort
