// SPDX-License-Identifier: MIT
// How the tiles of one product are shared out among threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace oort {

/// A grid of rectangles of tiles, one for each thread.
struct GemmSplit {
  int kept_parts = 1, streamed_parts = 1;
  int parts() const { return kept_parts * streamed_parts; }
};

/// Begin of part `i` of `parts` equal parts of `extent`.
inline int64_t PartBegin(int64_t extent, int parts, int i) {
  return extent / parts * i + std::min<int64_t>(i, extent % parts);
}

/// Finds the grid that ends soonest. The cost of a grid is that of its largest rectangle: the
/// multiplications of its tiles, and the elements of both sides that its thread reads from the
/// shared cache. Square rectangles read least; long ones may divide more evenly. The kept side has
/// at most `kept_extent` elements, so that a narrow last panel is not counted as a whole one.
inline GemmSplit SplitTiles(int64_t kept_panels, int kept_width, int64_t streamed_panels,
                            int streamed_width, int threads,
                            int64_t kept_extent = std::numeric_limits<int64_t>::max()) {
  constexpr double kMultiplications = 32, kElements = 2;  // in the time of one cycle
  GemmSplit best;
  double best_time = std::numeric_limits<double>::infinity();
  for (int kept_parts = 1; kept_parts <= threads && kept_parts <= kept_panels; ++kept_parts) {
    const int64_t rest = threads / kept_parts;
    const int streamed_parts = static_cast<int>(std::clamp<int64_t>(streamed_panels, 1, rest));
    const double kept = static_cast<double>(
        std::min((kept_panels + kept_parts - 1) / kept_parts * kept_width, kept_extent));
    const double streamed = static_cast<double>((streamed_panels + streamed_parts - 1) /
                                                streamed_parts * streamed_width);
    const double time = kept * streamed / kMultiplications + (kept + streamed) / kElements;
    if (time < best_time) {
      best = {kept_parts, streamed_parts};
      best_time = time;
    }
  }
  return best;
}

}  // namespace oort
