// SPDX-License-Identifier: MIT
// What the constants of a traced decoder stand for.
#pragma once

#include <optional>
#include <vector>

#include "oort/tensor.h"

namespace oort {

struct TracedRotary {
  std::vector<float> frequencies;  ///< radians a position
  double magnitude = 1;
  bool interleaved = false;
};

/// The frequencies of tables of cosines and sines (positions, 2 * pairs); nothing unless every
/// position has the angles that the frequencies give it.
std::optional<TracedRotary> RecoverRotary(const Tensor& cosines, const Tensor& sines,
                                          int64_t positions, bool interleaved);

/// How many of the last tokens a token sees by a mask (…,T,T), 0 for all before it. The mask is
/// bool, or added to scores. Throws kUnsupported unless it is causal, for all heads alike.
int64_t CausalWindow(const Tensor& mask, int64_t tokens);

}  // namespace oort
