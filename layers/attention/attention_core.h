// SPDX-License-Identifier: MIT
// softmax(Q K^T * scale + masks) V, for many heads at once.
#pragma once

#include <type_traits>
#include <vector>

#include "core/scratch_vector.h"
#include "layers/precision_param.h"
#include "layers/softmax/softmax_kernels.h"
#include "oort/layer.h"

namespace oort {

/// The matrices of one operand: matrix i begins at data + offsets[i], its rows are `row` apart and
/// their elements side by side. T is float or double, or on a GPU one of 16 bits.
template <typename T>
struct AttentionOperand {
  const T* data = nullptr;
  int64_t row = 0;
  ScratchVector<int64_t> offsets;
};

/// What is added to the scores: numbers, or minus infinity where a flag equals `drop`.
template <typename T>
struct AttentionMask {
  const T* numbers = nullptr;
  const uint8_t* flags = nullptr;  ///< bools as bytes: those of a file may be more than 0 and 1
  bool drop = false;
  int64_t row = 0, column = 1;
  int64_t columns = 0;  ///< keys behind these are not masked
  ScratchVector<int64_t> offsets;
};

template <typename T>
struct AttentionProblem {
  int64_t count = 0;  ///< matrices, all heads of all batches
  int64_t queries = 0, keys = 0, dim = 0, value_dim = 0;
  AttentionOperand<T> q, k, v;
  ScratchVector<AttentionMask<T>> masks;
  std::conditional_t<std::is_same_v<T, double>, double, float> scale = 1;
  bool causal = false;  ///< query i sees keys 0 … i
  /// What a query gives that may see nothing: zeros, or the NaN of a plain softmax.
  bool zero_if_masked = false;
  T* output = nullptr;
  int64_t output_row = 0;
  ScratchVector<int64_t> output_offsets;
  /// The softmax, or its mean over each `heads` matrices in a row; null if nobody wants it.
  T* weights = nullptr;
  int64_t heads = 1;
  bool mean_weights = false;
};

struct AttentionKernels {
  explicit AttentionKernels(const LayerInit& init)
      : gemm(GemmKernelsFor(init)), softmax(SoftmaxKernelsFor(init.isa())) {}
  const GemmKernels& gemm;
  const SoftmaxKernels& softmax;
};

/// Rounded up so that what comes behind begins a cache line.
int64_t AlignedFloats(int64_t floats);
/// Inputs do not fit each other or the layer.
[[noreturn]] void ThrowAttention(const std::string& message);

/// Scratch elements; only the sizes of the problem count.
template <typename T>
int64_t AttentionWorkspace(const AttentionKernels& kernels, const AttentionProblem<T>& problem,
                           int threads);
template <typename T>
void RunAttention(const AttentionKernels& kernels, const AttentionProblem<T>& problem, int threads,
                  T* workspace);

}  // namespace oort
