// SPDX-License-Identifier: MIT
// Rotary position embedding: pairs of elements of each head turn by the angle of their token.
#pragma once

#include <algorithm>

#include "layers/rotary/rotary_kernels.h"
#include "oort/error.h"
#include "oort/tensor.h"

namespace oort {

class HeadTurner {
 public:
  /// `angles` (tokens, 2, pairs) as oort.RotaryAngles gives them. Pairs are elements (i, pairs + i)
  /// or, interleaved, (2i, 2i + 1); what is behind them stays as it is.
  HeadTurner(const RotaryKernels& kernels, const Tensor& angles, int64_t head_dim, bool interleaved)
      : turn_(interleaved ? kernels.neighbours : kernels.halves),
        angles_(angles.data<float>()),
        pairs_(angles.dim(2)),
        head_dim_(head_dim) {}

  static void Check(const Shape& angles, int64_t head_dim) {
    if (angles.rank() == 3 && angles[1] == 2 && angles[2] * 2 <= head_dim) return;
    throw Error(ErrorCode::kInvalidArgument, "expected angles (tokens, 2, at most " +
                                                 std::to_string(head_dim / 2) + "), got " +
                                                 angles.ToString());
  }

  /// All heads of one token, of rows of `width` elements; `to` may be `from`.
  void Token(const float* from, float* to, int64_t width, int64_t token) const {
    const float* cosines = angles_ + token * 2 * pairs_;
    const float* sines = cosines + pairs_;
    const float* in = from + token * width;
    float* out = to + token * width;
    for (int64_t head = 0; head < width; head += head_dim_, in += head_dim_, out += head_dim_) {
      turn_(in, out, cosines, sines, pairs_);
      if (in != out) std::copy(in + 2 * pairs_, in + head_dim_, out + 2 * pairs_);
    }
  }

 private:
  RotaryKernels::Turn turn_;
  const float* angles_;
  int64_t pairs_, head_dim_;
};

}  // namespace oort
