// SPDX-License-Identifier: MIT
// How results become bytes without the slow conversion of floats to integers.
#pragma once

#include <cstdint>

#include "layers/quantize/cuda/byte_conv.h"

namespace oort::cuda {

struct ByteRounding {
  float low, high;  ///< steps of the result
  float shift;      ///< 1.5 * 2^23 and the zero point, or, where that is odd, what is one less
  bool odd;

  static ByteRounding Of(const ByteEpilogue& epilogue) {
    const bool odd = epilogue.zero_point % 2 != 0;
    return {epilogue.low, epilogue.high,
            3.0f * (1 << 22) + static_cast<float>(epilogue.zero_point - (odd ? 1 : 0)), odd};
  }
};

#ifdef __CUDACC__
/// The byte of a result, in the last bits. Numbers about 1.5 * 2^23 have no bits behind the point:
/// the addition rounds half to even, since the shift is even, and leaves the integer in the last
/// bits. `odd` says that the zero point is.
template <bool odd>
__device__ inline uint32_t ByteBits(const ByteRounding& rounding, float value) {
  const float limited = fmaxf(fminf(value, rounding.high), rounding.low);
  const float shifted = __fadd_rn(limited, rounding.shift);
  return __float_as_uint(odd ? __fadd_rn(shifted, 1.0f) : shifted);
}
__device__ inline uint32_t ByteBits(const ByteRounding& rounding, float value) {
  return rounding.odd ? ByteBits<true>(rounding, value) : ByteBits<false>(rounding, value);
}
/// Four of these as one word.
__device__ inline uint32_t WordOf(const uint32_t* bits) {
  return __byte_perm(__byte_perm(bits[0], bits[1], 0x0040), __byte_perm(bits[2], bits[3], 0x0040),
                     0x5410);
}
#endif

}  // namespace oort::cuda
