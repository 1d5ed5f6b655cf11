// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "oort/image.h"

namespace oort {
namespace {

constexpr float kLeastSide = 3;

Point operator-(const Point& a, const Point& b) { return {a.x - b.x, a.y - b.y}; }
float Dot(const Point& a, const Point& b) { return a.x * b.x + a.y * b.y; }
float Cross(const Point& a, const Point& b) { return a.x * b.y - a.y * b.x; }
float Distance(const Point& a, const Point& b) { return std::hypot(a.x - b.x, a.y - b.y); }

/// A map of probabilities, and which of its pixels are not yet part of a region.
class RegionMap {
 public:
  RegionMap(const Tensor& map, float threshold)
      : height_(map.dim(map.rank() - 2)),
        width_(map.dim(map.rank() - 1)),
        values_(map.data<float>()),
        open_(static_cast<size_t>(height_ * width_)) {
    // A pixel reaches one to the right and below, so that thin gaps close.
    for (int64_t y = 0; y < height_; ++y) {
      for (int64_t x = 0; x < width_; ++x) {
        if (!(values_[y * width_ + x] > threshold)) continue;
        for (const int64_t to_y : {y, std::min(y + 1, height_ - 1)}) {
          open_[static_cast<size_t>(to_y * width_ + x)] = true;
          open_[static_cast<size_t>(to_y * width_ + std::min(x + 1, width_ - 1))] = true;
        }
      }
    }
  }

  int64_t size() const { return height_ * width_; }

  /// Ends of the rows of the part that `start` belongs to, or nothing where it belongs to none. The
  /// part is taken out of the map.
  std::vector<Point> Take(int64_t start) {
    std::vector<Point> points;
    if (!open_[static_cast<size_t>(start)]) return points;
    std::vector<int64_t> waiting = {start};
    open_[static_cast<size_t>(start)] = false;
    while (!waiting.empty()) {
      const int64_t at = waiting.back(), y = at / width_, x = at % width_;
      waiting.pop_back();
      bool inside = x > 0 && x + 1 < width_;
      for (int64_t dy = -1; dy <= 1; ++dy) {
        for (int64_t dx = -1; dx <= 1; ++dx) {
          const int64_t to_y = y + dy, to_x = x + dx;
          if (to_y < 0 || to_y >= height_ || to_x < 0 || to_x >= width_) continue;
          const auto to = static_cast<size_t>(to_y * width_ + to_x);
          if (open_[to]) waiting.push_back(to_y * width_ + to_x);
          inside &= dy != 0 || open_[to] || dx == 0;
          open_[to] = false;
        }
      }
      if (!inside) points.push_back({static_cast<float>(x), static_cast<float>(y)});
    }
    return points;
  }

  /// The mean of the pixels within a convex quadrangle.
  float Mean(const Quad& quad) const {
    double sum = 0;
    int64_t count = 0;
    const auto [left, right] = std::minmax({quad[0].x, quad[1].x, quad[2].x, quad[3].x});
    const auto [top, bottom] = std::minmax({quad[0].y, quad[1].y, quad[2].y, quad[3].y});
    const auto first_x = std::max<int64_t>(0, static_cast<int64_t>(left));
    const auto first_y = std::max<int64_t>(0, static_cast<int64_t>(top));
    for (int64_t y = first_y; y < height_ && static_cast<float>(y) <= bottom + 1; ++y) {
      for (int64_t x = first_x; x < width_ && static_cast<float>(x) <= right + 1; ++x) {
        if (!Holds(quad, {static_cast<float>(x), static_cast<float>(y)})) continue;
        sum += values_[y * width_ + x];
        ++count;
      }
    }
    return count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0;
  }

 private:
  static bool Holds(const Quad& quad, const Point& point) {
    for (size_t i = 0; i < 4; ++i) {
      const Point edge = quad[(i + 1) % 4] - quad[i];
      if (Cross(edge, point - quad[i]) < -0.5f * std::hypot(edge.x, edge.y)) return false;
    }
    return true;
  }

  int64_t height_, width_;
  const float* values_;
  std::vector<bool> open_;
};

/// The convex hull, by Andrew's monotone chain.
std::vector<Point> Hull(std::vector<Point> points) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  std::vector<Point> hull;
  for (int side = 0; side < 2; ++side) {
    const size_t base = hull.size();
    for (const Point& point : points) {
      while (hull.size() >= base + 2 &&
             Cross(hull.back() - hull[hull.size() - 2], point - hull.back()) <= 0) {
        hull.pop_back();
      }
      hull.push_back(point);
    }
    hull.pop_back();
    std::reverse(points.begin(), points.end());
  }
  return hull;
}

/// A rectangle along `axis`: where it begins and ends on it and across.
struct Frame {
  Point axis;
  float first = 0, last = 0, low = 0, high = 0;
  float width() const { return last - first; }
  float height() const { return high - low; }

  void Grow(float by) {
    first -= by;
    last += by;
    low -= by;
    high += by;
  }

  Quad Corners() const {
    const auto corner = [this](float along, float across) {
      return Point{axis.x * along - axis.y * across, axis.y * along + axis.x * across};
    };
    Quad quad = {corner(first, low), corner(last, low), corner(last, high), corner(first, high)};
    std::stable_sort(quad.begin(), quad.end(),
                     [](const Point& a, const Point& b) { return a.x < b.x; });
    if (quad[0].y > quad[1].y) std::swap(quad[0], quad[1]);
    if (quad[2].y > quad[3].y) std::swap(quad[2], quad[3]);
    return {quad[0], quad[2], quad[3], quad[1]};
  }
};

/// The rectangle of least area: one of its sides lies on a side of the hull.
Frame LeastFrame(const std::vector<Point>& hull) {
  Frame best;
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < hull.size(); ++i) {
    const Point edge = hull[(i + 1) % hull.size()] - hull[i];
    const float length = std::hypot(edge.x, edge.y);
    if (length == 0) continue;
    const float infinite = std::numeric_limits<float>::infinity();
    Frame frame{{edge.x / length, edge.y / length}, infinite, -infinite, infinite, -infinite};
    for (const Point& point : hull) {
      const float along = Dot(frame.axis, point), across = Cross(frame.axis, point);
      frame.first = std::min(frame.first, along);
      frame.last = std::max(frame.last, along);
      frame.low = std::min(frame.low, across);
      frame.high = std::max(frame.high, across);
    }
    if (frame.width() * frame.height() < least) {
      least = frame.width() * frame.height();
      best = frame;
    }
  }
  return best;
}

float CubicTap(float x) {
  constexpr float kSharpness = -0.75f;
  x = std::abs(x);
  if (x < 1) return ((kSharpness + 2) * x - (kSharpness + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kSharpness : 0;
}

/// The brightness between pixels, from 4 x 4 of them.
void SampleCubic(const Image& image, const Point& at, float* out) {
  const float base_x = std::floor(at.x), base_y = std::floor(at.y);
  std::fill_n(out, image.channels, 0.0f);
  for (int j = -1; j <= 2; ++j) {
    const float y = base_y + static_cast<float>(j), row = CubicTap(y - at.y);
    const auto from_y = static_cast<int>(std::clamp(y, 0.0f, static_cast<float>(image.height - 1)));
    for (int i = -1; i <= 2; ++i) {
      const float x = base_x + static_cast<float>(i), weight = row * CubicTap(x - at.x);
      const auto from_x =
          static_cast<int>(std::clamp(x, 0.0f, static_cast<float>(image.width - 1)));
      for (int c = 0; c < image.channels; ++c) out[c] += weight * image.at(from_y, from_x, c);
    }
  }
}

}  // namespace

std::vector<Region> FindRegions(const Tensor& map, const RegionOptions& options) {
  const bool plane = map.rank() == 2 || (map.rank() == 4 && map.dim(0) == 1 && map.dim(1) == 1);
  if (!plane || map.dtype() != DType::kF32) {
    throw Error(ErrorCode::kInvalidArgument,
                "regions are found in f32 (H,W) or (1,1,H,W), not in " + map.ToString());
  }
  RegionMap pixels(map, options.threshold);
  std::vector<Region> found;
  for (int64_t i = 0; i < pixels.size() && found.size() < options.most; ++i) {
    const std::vector<Point> points = pixels.Take(i);
    if (points.size() < 3) continue;
    Frame frame = LeastFrame(Hull(points));
    if (std::min(frame.width(), frame.height()) < kLeastSide) continue;
    const float score = pixels.Mean(frame.Corners());
    if (!(score >= options.least_score)) continue;
    const float perimeter = 2 * (frame.width() + frame.height());
    const float growth = frame.width() * frame.height() * options.growth / perimeter;
    // The programs of PP-OCR grow polygons of whole numbers; so the same pixels are cut out.
    std::vector<Point> whole;
    for (const Point& point : frame.Corners()) {
      whole.push_back({std::trunc(point.x), std::trunc(point.y)});
    }
    frame = LeastFrame(Hull(whole));
    frame.Grow(growth);
    found.push_back({frame.Corners(), score});
  }
  return found;
}

Image CropQuad(const Image& image, const Quad& quad) {
  const float across = std::max(Distance(quad[0], quad[1]), Distance(quad[3], quad[2]));
  const float down = std::max(Distance(quad[0], quad[3]), Distance(quad[1], quad[2]));
  if (!(across >= 1 && down >= 1 && across < 1e6f && down < 1e6f)) {
    throw Error(ErrorCode::kInvalidArgument, "a part of " + std::to_string(across) + " x " +
                                                 std::to_string(down) +
                                                 " pixels cannot be cut out");
  }
  Image result = MakeImage(static_cast<int>(across), static_cast<int>(down), image.channels);
  for (int y = 0; y < result.height; ++y) {
    const float v = static_cast<float>(y) / static_cast<float>(result.height);
    const Point left{quad[0].x + v * (quad[3].x - quad[0].x),
                     quad[0].y + v * (quad[3].y - quad[0].y)};
    const Point right{quad[1].x + v * (quad[2].x - quad[1].x),
                      quad[1].y + v * (quad[2].y - quad[1].y)};
    for (int x = 0; x < result.width; ++x) {
      const float u = static_cast<float>(x) / static_cast<float>(result.width);
      SampleCubic(image, {left.x + u * (right.x - left.x), left.y + u * (right.y - left.y)},
                  &result.at(y, x, 0));
    }
  }
  return result;
}

Image Turn(const Image& image, int quarters) {
  quarters = (quarters % 4 + 4) % 4;
  if (quarters == 0) return image;
  const bool lying = quarters % 2 == 1;
  Image result = MakeImage(lying ? image.height : image.width, lying ? image.width : image.height,
                           image.channels);
  for (int y = 0; y < result.height; ++y) {
    for (int x = 0; x < result.width; ++x) {
      const int from_y = quarters == 1   ? x
                         : quarters == 2 ? image.height - 1 - y
                                         : image.height - 1 - x;
      const int from_x = quarters == 1   ? image.width - 1 - y
                         : quarters == 2 ? image.width - 1 - x
                                         : y;
      for (int c = 0; c < image.channels; ++c) result.at(y, x, c) = image.at(from_y, from_x, c);
    }
  }
  return result;
}

}  // namespace oort
