// SPDX-License-Identifier: MIT
// Into which bucket the distance of two tokens falls, as T5 and MPNet have it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace oort {

/// `distance` is key minus query. Half of the buckets are for near distances, one each, the others
/// are wider and wider up to `farthest`. `both_ways`: keys behind the query have half of all.
inline int64_t RelativeBucket(int64_t distance, bool both_ways, int64_t buckets, int64_t farthest) {
  int64_t first = 0;
  if (both_ways) {
    buckets /= 2;
    if (distance > 0) first = buckets;
    distance = std::abs(distance);
  } else {
    distance = -std::min<int64_t>(distance, 0);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  const float far =
      std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(farthest) / static_cast<double>(exact))) *
      static_cast<float>(buckets - exact);
  return first + std::min(exact + static_cast<int64_t>(far), buckets - 1);
}

}  // namespace oort
