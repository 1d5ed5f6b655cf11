// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace oort {

/// Extents of a tensor, outermost first. Rank 0 (one element) to kMaxRank; no allocation.
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  /// Stands for an extent that is not known; only in the hints of a Graph, never in a Tensor.
  static constexpr int64_t kUnknown = -1;

  Shape() = default;
  /// Throws kInvalidArgument when there are more than kMaxRank extents.
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }

  void Append(int64_t extent);
  void Insert(int axis, int64_t extent);
  void Erase(int axis);

  /// Number of elements; throws kInvalidArgument for a negative extent or one that overflows.
  int64_t elements() const;
  /// Product of the extents in [from, to).
  int64_t Product(int from, int to) const;
  bool IsKnown() const;
  std::string ToString() const;  ///< "(1,3,?,224)"

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Maps an axis in [-rank, rank) to [0, rank); throws kInvalidArgument otherwise.
/// Rank 0 counts as rank 1, as in torch.
int NormalizeAxis(int64_t axis, int rank);

/// The shape that both broadcast to; throws kInvalidArgument where they do not fit.
Shape BroadcastShapes(const Shape& a, const Shape& b);

}  // namespace oort
