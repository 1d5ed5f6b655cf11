// SPDX-License-Identifier: MIT
// Device side of ByteEpilogue. Every operation is one of the CPU's, in its order.
#pragma once

#include "cuda/epilogue.cuh"
#include "layers/quantize/cuda/byte_conv.h"

namespace oort::cuda {

__device__ inline float ByteActivation(const ByteEpilogue& epilogue, float x) {
  constexpr float kSixth = static_cast<float>(1.0 / 6.0);
  if (epilogue.activation == Activation::kHardswish) {
    return __fmul_rn(__fmul_rn(x, Clamped(__fadd_rn(x, 3.0f), 0.0f, 6.0f)), kSixth);
  }
  if (epilogue.activation == Activation::kHardsigmoid) {
    return __fmul_rn(Clamped(__fadd_rn(x, 3.0f), 0.0f, 6.0f), kSixth);
  }
  return Activate(epilogue.activation, epilogue.a, epilogue.b, x);
}

__device__ inline float ByteAddend(const ByteEpilogue& epilogue, uint32_t byte) {
  return static_cast<float>(epilogue.addend_signed ? static_cast<int>(static_cast<int8_t>(byte))
                                                   : static_cast<int>(byte & 0xffu));
}

/// The number that a sum stands for, with the byte of the addend.
__device__ inline float FinishSum(const ByteEpilogue& epilogue, int sum, float scale, float bias,
                                  uint32_t addend) {
  float value = __fmaf_rn(__int2float_rn(sum), scale, bias);
  if (epilogue.addend != nullptr) {
    value = __fmaf_rn(ByteAddend(epilogue, addend), epilogue.addend_scale, value);
  }
  return epilogue.activated ? ByteActivation(epilogue, value) : value;
}

/// The bits of the byte of a number.
__device__ inline uint32_t ByteOf(const ByteEpilogue& epilogue, float value) {
  if (epilogue.activated) {
    value = __fmul_rn(value, epilogue.inverse);
    value = value == value ? value : 0.0f;  // what is no number becomes the zero point
  }
  value = value < epilogue.high ? value : epilogue.high;
  value = value > epilogue.low ? value : epilogue.low;
  return static_cast<uint32_t>(__float2int_rn(value) + epilogue.zero_point) & 0xffu;
}

/// One result, at element `place`.
__device__ inline void StoreResult(const ByteEpilogue& epilogue, void* out, int64_t place, int sum,
                                   int filter) {
  const uint32_t addend =
      epilogue.addend == nullptr ? 0 : static_cast<const uint8_t*>(epilogue.addend)[place];
  const float value =
      FinishSum(epilogue, sum, epilogue.scale[filter], epilogue.bias[filter], addend);
  if (epilogue.bytes) {
    static_cast<uint8_t*>(out)[place] = static_cast<uint8_t>(ByteOf(epilogue, value));
  } else {
    static_cast<float*>(out)[place] = value;
  }
}

}  // namespace oort::cuda
