// SPDX-License-Identifier: MIT
#include "decoder/key_centre.h"

#include <cmath>

namespace oort {

Tensor KeyCentre(const Tensor& bias, int64_t head_dim, const RotaryConfig& rotary) {
  // Few prompts are longer, and it may be wrong by much: pairs with large biases turn by less than
  // half a radian in eight times as many.
  constexpr double kPositions = 4096;
  Tensor centre = bias.Clone();
  const int64_t pairs = rotary.dims / 2;
  for (int64_t head = 0; head < bias.elements(); head += head_dim) {
    float* const x = centre.data<float>() + head;
    for (int64_t i = 0; i < pairs; ++i) {
      const double turn =
          static_cast<double>(rotary.frequencies[static_cast<size_t>(i)]) * kPositions;
      const double cosine = (turn == 0 ? 1 : std::sin(turn) / turn) * rotary.magnitude;
      const double sine = (turn == 0 ? 0 : (1 - std::cos(turn)) / turn) * rotary.magnitude;
      float& first = x[rotary.interleaved ? 2 * i : i];
      float& second = x[rotary.interleaved ? 2 * i + 1 : i + pairs];
      const double a = first, b = second;
      first = static_cast<float>(a * cosine - b * sine);
      second = static_cast<float>(b * cosine + a * sine);
    }
  }
  return centre;
}

}  // namespace oort
