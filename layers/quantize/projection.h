// SPDX-License-Identifier: MIT
// The weights of operators that multiply rows by several matrices: of floats, or of bytes.
#pragma once

#include <memory>
#include <utility>

#include "core/checked.h"
#include "layers/linear/dense.h"
#include "layers/quantize/dynamic_product.h"

namespace oort {

/// A Dense<T> or, for f32 alone, a DynamicProduct.
template <typename T>
class Projection {
 public:
  Projection() = default;
  explicit Projection(Dense<T> dense) : dense_(std::move(dense)) {}
  Projection(Isa isa, const Tensor& weight, const Tensor& scales, bool symmetric)
      : bytes_(std::make_shared<const DynamicProduct>(isa, weight, scales, symmetric)) {}

  int64_t in() const { return bytes_ ? bytes_->in() : dense_.in(); }
  int64_t out() const { return bytes_ ? bytes_->out() : dense_.out(); }
  bool empty() const { return !bytes_ && dense_.empty(); }
  /// Of the weights.
  double bytes() const {
    const double weights = static_cast<double>(in()) * static_cast<double>(out());
    return weights * (bytes_ ? 1 : sizeof(T));
  }

  /// Scratch elements for so many rows, which `apart` says do not follow each other in the result.
  int64_t Workspace(const GemmKernels& kernels, int64_t rows, int threads,
                    bool apart = false) const {
    if (!bytes_) return dense_.Workspace(kernels, rows, threads);
    return CeilDivide(static_cast<int64_t>(bytes_->Workspace(rows, apart)), sizeof(T));
  }

  void Run(const GemmKernels& kernels, int64_t rows, RowsOf<const T> x, const T* bias, RowsOf<T> y,
           int threads, T* workspace) const {
    if constexpr (std::is_same_v<T, float>) {
      if (bytes_) {
        return bytes_->Run(threads, rows, x, bias, y, reinterpret_cast<std::byte*>(workspace));
      }
    }
    dense_.Run(kernels, rows, x, bias, y, threads, workspace);
  }

 private:
  Dense<T> dense_;
  std::shared_ptr<const DynamicProduct> bytes_;
};

}  // namespace oort
