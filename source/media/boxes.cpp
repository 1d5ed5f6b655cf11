// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "media/stb.h"
#include "oort/image.h"

namespace oort {
namespace {

constexpr size_t kMostCandidates = 30000;
constexpr size_t kLongestLabel = 200;  // characters
constexpr int kLetterHeight = 12;

float Area(const Box& box) { return std::max(0.0f, box.width()) * std::max(0.0f, box.height()); }

/// A coordinate as a pixel of the picture; what is no number counts as the first.
int ToPixel(float value, int extent) {
  if (!(value > 0)) return 0;
  return static_cast<int>(std::min(value, static_cast<float>(extent)));
}

void FillBox(Image& image, const Box& box, const Color& color) {
  const int x0 = ToPixel(box.x0, image.width), x1 = ToPixel(box.x1, image.width);
  const int y0 = ToPixel(box.y0, image.height), y1 = ToPixel(box.y1, image.height);
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      for (int c = 0; c < image.channels; ++c) image.at(y, x, c) = color[static_cast<size_t>(c)];
    }
  }
}

bool IsBright(const Color& color) {
  return 0.299f * color[0] + 0.587f * color[1] + 0.114f * color[2] > 140;
}

}  // namespace

float Overlap(const Box& a, const Box& b) {
  const Box both{std::max(a.x0, b.x0), std::max(a.y0, b.y0), std::min(a.x1, b.x1),
                 std::min(a.y1, b.y1)};
  const float shared = Area(both), all = Area(a) + Area(b) - shared;
  return all > 0 ? shared / all : 0;
}

std::vector<Detection> Suppress(std::vector<Detection> detections,
                                const SuppressionOptions& options) {
  std::erase_if(detections, [](const Detection& d) { return std::isnan(d.score); });
  std::stable_sort(detections.begin(), detections.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  if (detections.size() > kMostCandidates) detections.resize(kMostCandidates);
  std::vector<Detection> kept;
  for (const Detection& one : detections) {
    if (kept.size() >= options.most) break;
    const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Detection& better) {
      return (!options.by_label || better.label == one.label) &&
             Overlap(better.box, one.box) > options.overlap;
    });
    if (!hidden) kept.push_back(one);
  }
  return kept;
}

Color Palette(int index) {
  static constexpr std::array<Color, 12> kColors = {{{230, 57, 70},
                                                     {29, 120, 196},
                                                     {42, 157, 80},
                                                     {244, 162, 30},
                                                     {142, 68, 173},
                                                     {0, 172, 178},
                                                     {214, 51, 132},
                                                     {123, 97, 55},
                                                     {250, 218, 60},
                                                     {72, 61, 220},
                                                     {130, 200, 40},
                                                     {90, 100, 110}}};
  return kColors[static_cast<size_t>(index % 12 + 12) % kColors.size()];
}

void DrawBox(Image& image, const Box& box, const Color& color, int thickness) {
  const auto line = static_cast<float>(std::max(thickness, 1));
  FillBox(image, {box.x0, box.y0, box.x1, std::min(box.y0 + line, box.y1)}, color);
  FillBox(image, {box.x0, std::max(box.y1 - line, box.y0), box.x1, box.y1}, color);
  FillBox(image, {box.x0, box.y0, std::min(box.x0 + line, box.x1), box.y1}, color);
  FillBox(image, {std::max(box.x1 - line, box.x0), box.y0, box.x1, box.y1}, color);
}

void DrawLabel(Image& image, float x, float y, std::string_view text, const Color& color,
               int size) {
  std::string line(text.substr(0, kLongestLabel));
  // Of a character in several bytes only the first becomes a '?'.
  std::erase_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
  for (char& c : line) {
    if (c < ' ' || c > '~') c = '?';
  }
  const auto scale = static_cast<float>(std::clamp(size, 1, 64));
  const auto width = static_cast<float>(media::TextWidth(line.data()) + 4);
  FillBox(image, {x, y, x + width * scale, y + kLetterHeight * scale}, color);
  std::vector<media::StbQuad> quads(line.size() * 24 + 1);
  const auto count = static_cast<size_t>(media::TextQuads(line.data(), quads));
  const Color ink = IsBright(color) ? Color{0, 0, 0} : Color{255, 255, 255};
  for (const media::StbQuad& quad : std::span(quads).first(std::min(count, quads.size()))) {
    const auto& first = quad.corners[0];
    const auto& last = quad.corners[2];
    FillBox(image,
            {x + (first.x + 2) * scale, y + (first.y + 2) * scale, x + (last.x + 2) * scale,
             y + (last.y + 2) * scale},
            ink);
  }
}

}  // namespace oort
