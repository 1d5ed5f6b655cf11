// SPDX-License-Identifier: MIT
// Products of few rows on the GPU: a convolution of one tap, whose tiles share the depth, starts
// and ends sooner than a product of cuBLASLt. For *.cuda.cpp files.
#pragma once

#include "cpu/activation.h"
#include "cpu/gemm.h"
#include "layers/convolution/cuda/conv.h"
#include "oort/tensor.h"

namespace oort {

inline constexpr int64_t kThinRows = 64;

/// y = activation(x W^T + bias + addend), as a call for Convolve. `bias` is f32; it and the addend
/// may be null.
inline cuda::ConvCall ThinCall(const GemmSize& size, const Tensor& x, const Tensor& weight,
                               const float* bias, const void* addend,
                               const ActivationSpec& activation, Tensor& y) {
  cuda::ConvCall call;
  call.in = x.raw();
  call.weight = weight.raw();
  call.out = y.raw();
  call.depth = call.in_pixel = size.k;
  call.out_pixel = size.n;
  call.channels = static_cast<int>(size.k);
  call.filters = static_cast<int>(size.n);
  call.batch = size.m;
  call.epilogue.bias = bias;
  call.epilogue.addend = addend;
  call.epilogue.activation = activation.kind;
  call.epilogue.a = activation.a;
  call.epilogue.b = activation.b;
  return call;
}

inline cuda::ConvMath ThinMath(DType dtype, bool tf32) {
  if (dtype == DType::kF16) return cuda::ConvMath::kF16;
  if (dtype == DType::kBF16) return cuda::ConvMath::kBF16;
  return tf32 ? cuda::ConvMath::kTF32 : cuda::ConvMath::kF32;
}

/// Whether a product should run so: rows of whole 16-byte pieces.
inline bool IsThin(const GemmSize& size, DType dtype) {
  const bool wide = dtype == DType::kF32;
  return size.m <= (wide ? kThinRows / 4 : kThinRows) && size.k % (wide ? 4 : 8) == 0 &&
         size.k > 0 && size.k < (1 << 24) && size.n < (1 << 24) &&
         (wide || dtype == DType::kF16 || dtype == DType::kBF16);
}

}  // namespace oort
