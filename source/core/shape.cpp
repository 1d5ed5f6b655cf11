// SPDX-License-Identifier: MIT
#include "oort/shape.h"

#include <algorithm>

#include "core/checked.h"

namespace oort {

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(dims.size()) + " is over the limit of 8");
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

void Shape::Append(int64_t extent) { Insert(rank_, extent); }

void Shape::Insert(int axis, int64_t extent) {
  if (rank_ == kMaxRank) throw Error(ErrorCode::kInvalidArgument, "rank 9 is over the limit of 8");
  for (int i = rank_; i > axis; --i) (*this)[i] = (*this)[i - 1];
  (*this)[axis] = extent;
  ++rank_;
}

void Shape::Erase(int axis) {
  for (int i = axis; i + 1 < rank_; ++i) (*this)[i] = (*this)[i + 1];
  --rank_;
}

int64_t Shape::Product(int from, int to) const {
  // An extent of zero hides an overflow of the others, which would still break strides; torch
  // refuses such shapes as well.
  int64_t product = 1;
  bool zero = false;
  for (int i = from; i < to; ++i) {
    const int64_t extent = (*this)[i];
    if (extent < 0) {
      throw Error(ErrorCode::kInvalidArgument, "shape " + ToString() + " has a negative extent");
    }
    if (extent == 0) {
      zero = true;
    } else if (MultiplyOverflows(product, extent, &product)) {
      throw Error(ErrorCode::kInvalidArgument, "shape " + ToString() + " has too many elements");
    }
  }
  return zero ? 0 : product;
}

int64_t Shape::elements() const { return Product(0, rank_); }

bool Shape::IsKnown() const {
  return std::all_of(begin(), end(), [](int64_t extent) { return extent >= 0; });
}

std::string Shape::ToString() const {
  std::string text = "(";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ',';
    text += (*this)[i] == kUnknown ? "?" : std::to_string((*this)[i]);
  }
  return text + ")";
}

bool operator==(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

int NormalizeAxis(int64_t axis, int rank) {
  const int64_t limit = std::max(rank, 1);
  if (axis < -limit || axis >= limit) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return static_cast<int>(axis < 0 ? axis + limit : axis);
}

Shape BroadcastShapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int shift = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const int64_t x = longer[i + shift], y = shorter[i];
    if (x == y || y == 1) continue;
    if (x != 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "shapes " + a.ToString() + " and " + b.ToString() + " do not broadcast");
    }
    result[i + shift] = y;
  }
  return result;
}

}  // namespace oort
