// SPDX-License-Identifier: MIT
// Rotary position embedding: pairs of elements of each head turn by the angle of their token.
#pragma once

#include <algorithm>

#include "oort/error.h"
#include "oort/tensor.h"

namespace oort {

class HeadTurner {
 public:
  /// `angles` (tokens, 2, pairs) as oort.RotaryAngles gives them. Pairs are elements (i, pairs + i)
  /// or, interleaved, (2i, 2i + 1); what is behind them stays as it is.
  HeadTurner(const Tensor& angles, int64_t head_dim, bool interleaved)
      : angles_(angles.data<float>()),
        pairs_(angles.dim(2)),
        head_dim_(head_dim),
        interleaved_(interleaved) {}

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
      if (interleaved_) {
        Neighbours(in, out, cosines, sines);
      } else {
        Halves(in, out, cosines, sines);
      }
      if (in != out) std::copy(in + 2 * pairs_, in + head_dim_, out + 2 * pairs_);
    }
  }

 private:
  void Neighbours(const float* in, float* out, const float* cosines, const float* sines) const {
    for (int64_t i = 0; i < pairs_; ++i) {
      const float a = in[2 * i], b = in[2 * i + 1];
      out[2 * i] = a * cosines[i] - b * sines[i];
      out[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
  }
  void Halves(const float* in, float* out, const float* cosines, const float* sines) const {
    for (int64_t i = 0; i < pairs_; ++i) {
      const float a = in[i], b = in[pairs_ + i];
      out[i] = a * cosines[i] - b * sines[i];
      out[pairs_ + i] = b * cosines[i] + a * sines[i];
    }
  }

  const float* angles_;
  int64_t pairs_, head_dim_;
  bool interleaved_;
};

}  // namespace oort
