// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace oort::cuda {

class Stream;

/// (tokens, 2, pairs): cosines and sines of position * frequencies[i], times magnitude.
void RotaryAngles(const Stream& stream, const int32_t* positions, int64_t tokens,
                  const float* frequencies, int64_t pairs, double magnitude, float* out);

/// Turns pairs of elements of each head; `to` may be `from`. Rows have `width` elements.
void TurnHeads(const Stream& stream, const float* from, float* to, int64_t tokens, int64_t width,
               int64_t head_dim, const float* angles, int64_t pairs, bool interleaved);

}  // namespace oort::cuda
