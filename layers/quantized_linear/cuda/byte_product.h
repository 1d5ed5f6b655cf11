// SPDX-License-Identifier: MIT
// Products of many rows by cuBLASLt, both sides of eight bits, and what is behind them.
#pragma once

#include <memory>
#include <span>

#include "cuda/blas.h"
#include "layers/quantized_linear/cuda/byte_weights.h"
#include "layers/quantized_linear/cuda/dequantize.h"
#include "layers/quantized_linear/quantized_linear_spec.h"

namespace oort::cuda {

/// The products of an operator, whose weights are one matrix.
struct ByteProduct {
  const QuantizedLinearSpec* spec = nullptr;
  ByteWeights weights;
  const float* bias = nullptr;  ///< of the packed rows, or null
  const float* norm = nullptr;
  Activation activation = Activation::kNone;
  int device = 0;

  /// Bytes of scratch for so many rows.
  size_t Workspace(int64_t rows) const;
  /// `scratch` begins at a multiple of 512.
  void Run(const Stream& stream, const Args& args, std::span<Value> outputs,
           std::byte* scratch) const;
  /// Rows of x, behind the norm, in other numbers and in units that are theirs alone.
  void Cast(const Stream& stream, const Args& args, RowNumbers numbers, void* rows,
            float* factors) const;

 private:
  struct Layout;
  int64_t width() const { return int64_t{weights.strips} * kStripRows; }
  bool InPlace() const;
  std::shared_ptr<const Matmul> MatmulOf(int64_t rows) const;
};

/// The data of an output.
inline float* DataOf(std::span<Value> outputs, int output) {
  return outputs[static_cast<size_t>(output)].AsTensor().data<float>();
}

}  // namespace oort::cuda
