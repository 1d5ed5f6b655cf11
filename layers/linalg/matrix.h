// SPDX-License-Identifier: MIT
// Matrices as LAPACK takes them: column after column.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>

#include "cpu/lapack.h"
#include "oort/error.h"
#include "oort/tensor.h"

namespace oort::linalg {

using lapack::Int;
using lapack::Real;

template <typename T>
T Conj(T x) {
  if constexpr (std::is_same_v<T, Real<T>>) {
    return x;
  } else {
    return std::conj(x);
  }
}
template <typename T>
bool IsFinite(T x) {
  return std::isfinite(std::real(x)) && std::isfinite(std::imag(x));
}

/// Memory that counts against the budget of a run, which vectors do not.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t count) : tensor_(kDTypeOf<T>, Shape{std::max<int64_t>(1, count)}) {}
  T* data() { return tensor_.template data<T>(); }
  const T* data() const { return tensor_.template data<T>(); }
  T& operator[](int64_t i) { return data()[i]; }
  const T& operator[](int64_t i) const { return data()[i]; }

 private:
  Tensor tensor_;
};

/// How a matrix stands in a tensor, which is row-major.
enum class Form { kPlain, kTransposed, kAdjoint };

template <typename T>
class Matrix {
 public:
  /// The elements are not set.
  Matrix(int64_t rows, int64_t columns)
      : rows_(Checked(rows)), columns_(Checked(columns)), values_(CheckedCount(rows, columns)) {}
  Matrix(Matrix&&) noexcept = default;
  Matrix& operator=(Matrix&&) noexcept = default;

  static Matrix Identity(int64_t n) {
    Matrix result(n, n);
    result.Fill([](Int i, Int j) { return T(i == j ? 1 : 0); });
    return result;
  }
  /// From or to a row-major matrix of `rows` by `columns` elements, or its transpose or adjoint.
  static Matrix From(const T* source, int64_t rows, int64_t columns, Form form = Form::kPlain) {
    Matrix result(form == Form::kPlain ? rows : columns, form == Form::kPlain ? columns : rows);
    result.Fill([=](Int i, Int j) {
      const T value = source[form == Form::kPlain ? i * columns + j : j * columns + i];
      return form == Form::kAdjoint ? Conj(value) : value;
    });
    return result;
  }
  void CopyTo(T* target, Form form = Form::kPlain) const {
    for (Int j = 0; j < columns_; ++j) {
      for (Int i = 0; i < rows_; ++i) {
        const T value = form == Form::kAdjoint ? Conj((*this)(i, j)) : (*this)(i, j);
        target[form == Form::kPlain ? int64_t{i} * columns_ + j : int64_t{j} * rows_ + i] = value;
      }
    }
  }
  /// Sets every element to value(i, j).
  template <typename Value>
  void Fill(const Value& value) {
    for (Int j = 0; j < columns_; ++j) {
      for (Int i = 0; i < rows_; ++i) (*this)(i, j) = value(i, j);
    }
  }

  T& operator()(int64_t i, int64_t j) { return values_[j * rows_ + i]; }
  const T& operator()(int64_t i, int64_t j) const { return values_[j * rows_ + i]; }
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  const Int& rows() const { return rows_; }
  const Int& columns() const { return columns_; }
  /// From one column to the next; LAPACK wants at least 1.
  Int step() const { return std::max<Int>(1, rows_); }
  bool empty() const { return rows_ == 0 || columns_ == 0; }

 private:
  // LAPACK counts with 32 bits, and some routines want several times the memory of the matrix.
  static constexpr int64_t kMost = int64_t{1} << 28;

  static Int Checked(int64_t extent) {
    if (extent > kMost) ThrowTooLarge();
    return static_cast<Int>(extent);
  }
  static int64_t CheckedCount(int64_t rows, int64_t columns) {
    if (rows * columns > kMost) ThrowTooLarge();
    return rows * columns;
  }
  [[noreturn]] static void ThrowTooLarge() {
    throw Error(ErrorCode::kUnsupported, "takes matrices of up to 2^28 elements");
  }

  Int rows_, columns_;
  Scratch<T> values_;
};

}  // namespace oort::linalg
