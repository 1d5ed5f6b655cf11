// SPDX-License-Identifier: MIT
// Scratch of a mixture of experts on a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/checked.h"
#include "layers/experts/cuda/route_experts.h"
#include "layers/experts/cuda/split_rows.h"

namespace oort::cuda {

struct MixtureShape {
  int64_t hidden = 0, intermediate = 0;
  int64_t held = 0, used = 0;  ///< experts
  int planes = kFastPlanes;
};

/// Longer steps are cut, so that scratch stays small beside the weights.
constexpr int64_t MixtureTokensAtOnce(const MixtureShape& shape) {
  constexpr int64_t kMostBytes = int64_t{128} << 20;
  return std::max(kTokensOfOneRouting,
                  kMostBytes / (shape.used * shape.hidden * int64_t{sizeof(float)}));
}

/// Where things lie, in bytes.
struct MixtureScratch {
  size_t experts = 0, weights = 0, order = 0, starts = 0, in_use = 0;
  size_t x = 0, hidden = 0, rows = 0, total = 0;

  MixtureScratch(const MixtureShape& shape, int64_t tokens) {
    const int64_t pairs = CheckedMultiply(tokens, shape.used);
    experts = Take(pairs, kNumber);
    weights = Take(pairs, kNumber);
    order = Take(pairs, kNumber);
    starts = Take(shape.held + 1, kNumber);
    in_use = Take(shape.held + 1, kNumber);
    x = Take(tokens, SplitRowElements(shape.hidden, shape.planes) * kHalf);
    hidden = Take(pairs, SplitRowElements(shape.intermediate, shape.planes) * kHalf);
    rows = Take(pairs, shape.hidden * kNumber);
  }

 private:
  static constexpr int64_t kNumber = 4, kHalf = 2;  // bytes

  size_t Take(int64_t count, int64_t size) {
    const size_t at = total;
    const auto bytes = static_cast<size_t>(CheckedMultiply(count, size));
    total = CheckedAdd(at, CheckedAdd(bytes, size_t{511}) / 512 * 512);
    return at;
  }
};

}  // namespace oort::cuda
