// SPDX-License-Identifier: MIT
// x W^T + b for rows of x: panels and the blocked product for f32, plain sums for f64.
#pragma once

#include <type_traits>

#include "cpu/gemm.h"
#include "oort/layer.h"

namespace oort {

/// Rows of a matrix somewhere in memory.
template <typename T>
struct RowsOf {
  T* data = nullptr;
  int64_t step = 0;  ///< elements from one row to the next
  T* operator[](int64_t row) const { return data + row * step; }
};

/// y = x W^T + bias for `rows` rows; W has `out` rows of `in` elements, bias may be null. For f64,
/// c64, c128 and integers, which wrap.
template <typename T>
void MultiplyPlain(int threads, int64_t rows, RowsOf<const T> x, RowsOf<const T> weight,
                   int64_t out, int64_t in, const T* bias, RowsOf<T> y);

/// A weight (out,in) that is known when the layer is made.
template <typename T>
class Dense {
 public:
  Dense() = default;
  /// Rows [first_row, first_row + rows) of `weight`, which is of dtype T.
  Dense(const GemmKernels& kernels, const Tensor& weight, int64_t first_row, int64_t rows)
      : in_(weight.shape()[1]), out_(rows) {
    if constexpr (std::is_same_v<T, float>) {
      const MatrixSource columns(kernels, {weight.data<float>() + first_row * in_, 1, in_});
      packed_ = PackedMatrix(kernels, GemmSide::kB, out_, in_, columns);
    } else {
      plain_ = weight.Rows(first_row, first_row + rows);
    }
  }
  Dense(const GemmKernels& kernels, const Tensor& weight)
      : Dense(kernels, weight, 0, weight.shape()[0]) {}

  /// Rows [first, first + rows) of the weight, which must begin a panel; shares its elements.
  Dense Part(int64_t first, int64_t rows) const {
    Dense part = *this;
    part.out_ = rows;
    if constexpr (std::is_same_v<T, float>) {
      part.first_ += first;
    } else {
      part.plain_ = plain_.Rows(first, first + rows);
    }
    return part;
  }

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  bool empty() const { return packed_.empty() && !plain_.defined(); }

  /// Scratch elements for a product of that many rows.
  int64_t Workspace(const GemmKernels& kernels, int64_t rows, int threads) const {
    return packed_.empty() ? 0 : GemmWorkspace(kernels, Size(rows), threads);
  }

  void Run(const GemmKernels& kernels, int64_t rows, RowsOf<const T> x, const T* bias, RowsOf<T> y,
           int threads, T* workspace) const {
    if constexpr (std::is_same_v<T, float>) {
      const MatrixSource source(kernels, {x.data, 1, x.step});
      GemmProblem problem;
      problem.size = Size(rows);
      problem.packed = static_cast<const std::byte*>(packed_.panels()) +
                       first_ * kernels.format.Padded(in_) * kernels.format.element;
      problem.a = &source;
      problem.c = y.data;
      problem.ldc = y.step;
      problem.column_bias = bias;
      Gemm(kernels, problem, threads, workspace);
    } else {
      MultiplyPlain<T>(threads, rows, x, {plain_.data<T>(), in_}, out_, in_, bias, y);
    }
  }

 private:
  GemmSize Size(int64_t rows) const { return {rows, out_, in_, false, true}; }

  int64_t in_ = 0, out_ = 0;
  int64_t first_ = 0;    // rows of the packed weight before it
  PackedMatrix packed_;  // f32
  Tensor plain_;         // f64
};

}  // namespace oort
