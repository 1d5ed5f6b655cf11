// SPDX-License-Identifier: MIT
// Views of a buffer by extents and strides: what permute, expand, slice and flip do to a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "oort/shape.h"

namespace oort {

/// Element (i0, i1, …) lies at offset() + Σ i_k · stride_k, counted in elements. A stride of 0
/// repeats, a negative one reverses. Methods rearrange the view without touching an element; they
/// trust their arguments, which the operators have checked.
class Strided {
 public:
  struct Axis {
    int64_t extent = 1;
    int64_t stride = 0;
  };
  /// Splitting every axis of the largest rank in two must fit.
  static constexpr int kMaxAxes = 2 * Shape::kMaxRank;

  /// All elements of a dense tensor, row-major.
  explicit Strided(const Shape& shape);
  /// Any axes; at most kMaxAxes of them.
  static Strided Of(std::span<const Axis> axes, int64_t offset);
  /// The extents of `other`, laid out densely in that order.
  static Strided DenseLike(const Strided& other);

  int rank() const { return rank_; }
  int64_t offset() const { return offset_; }
  Axis operator[](int axis) const { return axes_[static_cast<size_t>(axis)]; }
  std::span<const Axis> axes() const { return {axes_.data(), static_cast<size_t>(rank_)}; }
  Shape shape() const;
  bool IsEmpty() const;
  /// Whether the elements lie one after another in row-major order, so that a view at offset()
  /// needs no copy.
  bool IsDense() const;

  /// Axis i of the result is axis order[i].
  Strided Permuted(std::span<const int> order) const;
  Strided Swapped(int a, int b) const;
  /// `length` elements along `axis`, from `start` on, `step` apart.
  Strided Sliced(int axis, int64_t start, int64_t length, int64_t step = 1) const;
  /// The axis goes; what is at `index` stays.
  Strided Selected(int axis, int64_t index) const;
  Strided Flipped(int axis) const;
  /// A new axis before `axis` along which everything repeats.
  Strided Repeated(int axis, int64_t times) const;
  /// An axis of outer · inner elements becomes two.
  Strided Split(int axis, int64_t outer, int64_t inner) const;
  /// The diagonal of axes 0 and 1 that starts at (row, column), as the only axis.
  Strided Diagonal(int64_t row, int64_t column, int64_t length) const;
  /// torch's broadcasting: leading axes are added, extents of 1 repeat.
  Strided Broadcast(const Shape& shape) const;

 private:
  Strided() = default;
  Axis& at(int axis) { return axes_[static_cast<size_t>(axis)]; }
  void Insert(int axis, Axis value);
  void Erase(int axis);

  std::array<Axis, kMaxAxes> axes_{};
  int rank_ = 0;
  int64_t offset_ = 0;
};

/// Whether a tensor of shape `from` can be repeated to shape `to`.
bool BroadcastsTo(const Shape& from, const Shape& to);

}  // namespace oort
