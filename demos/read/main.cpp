// SPDX-License-Identifier: MIT
// Reads the text of a photographed page: PP-OCR finds lines, turns those that stand on their head,
// and reads them.
//   read MODEL_FOLDER PICTURE... [--out FOLDER]
// MODEL_FOLDER has the networks detect, direction and recognize (.pnnx.param and .bin) and
// characters.txt, as tools/export-model.py writes them. They were trained on pictures in blue,
// green, red.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "oort/image.h"
#include "oort/oort.h"

namespace {

namespace fs = std::filesystem;
constexpr int kLineHeight = 48, kDirectionWidth = 192, kLeastWidth = 320, kMostWidth = 8192;
constexpr int kShorterSide = 736, kLongerSide = 2000;
constexpr double kLeastScore = 0.5, kSureTurned = 0.9;
const oort::ResizeOptions kSharp{oort::Filter::kBilinear, false};
const oort::Normalization kAroundZero{{0.5}, {0.5}, false};

struct Line {
  oort::Quad corners;
  std::string text;
  double score = 0;
};

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

oort::Session LoadSession(const fs::path& folder, const std::string& name) {
  return oort::Session(
      oort::RuntimeGraph::Load(folder / (name + ".pnnx.param"), folder / (name + ".pnnx.bin")));
}

/// Lines from top to bottom; those that begin within ten pixels of each other from left to right.
void SortLines(std::vector<Line>& lines) {
  const auto begin = [](const Line& line) { return line.corners[0]; };
  std::stable_sort(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
    return std::pair(begin(a).y, begin(a).x) < std::pair(begin(b).y, begin(b).x);
  });
  for (size_t i = 1; i < lines.size(); ++i) {
    for (size_t j = i; j > 0; --j) {
      const bool level = std::abs(begin(lines[j]).y - begin(lines[j - 1]).y) < 10;
      if (!level || begin(lines[j]).x >= begin(lines[j - 1]).x) break;
      std::swap(lines[j], lines[j - 1]);
    }
  }
}

/// A line at the height that networks take, at the left of a frame; the rest is 0 to them.
oort::Tensor LineTensor(const oort::Image& line, int width) {
  const double ratio = static_cast<double>(line.width) / line.height;
  const int fitted = std::clamp(static_cast<int>(std::ceil(kLineHeight * ratio)), 1, width);
  const oort::Image resized = oort::Resize(line, fitted, kLineHeight, kSharp);
  return oort::ToTensor(oort::Crop(resized, 0, 0, width, kLineHeight, 127.5f), kAroundZero);
}

class Reader {
 public:
  explicit Reader(const fs::path& folder)
      : detect_(LoadSession(folder, "detect")),
        direction_(LoadSession(folder, "direction")),
        recognize_(LoadSession(folder, "recognize")),
        characters_(ReadLines(folder / "characters.txt")) {}

  std::vector<Line> Read(oort::Image image) {
    const int longer = std::max(image.width, image.height);
    const double shrink = std::min(1.0, static_cast<double>(kLongerSide) / longer);
    for (size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
      std::swap(image.pixels[i], image.pixels[i + 2]);
    }
    std::vector<Line> lines = Find(image, shrink), read;
    SortLines(lines);
    for (Line& line : lines) {
      Recognize(Upright(oort::CropQuad(image, line.corners)), line);
      if (line.score >= kLeastScore) read.push_back(line);
    }
    return read;
  }

 private:
  /// The network wants multiples of 32, and a shorter side of at least 736.
  std::vector<Line> Find(const oort::Image& image, double shrink) {
    const double shorter = shrink * std::min(image.width, image.height);
    const double scale = shrink * std::max(1.0, kShorterSide / shorter);
    const auto fitted = [&](int extent) {
      return std::clamp(static_cast<int>(std::nearbyint(std::floor(extent * scale) / 32)), 1, 250) *
             32;
    };
    const oort::Image resized =
        oort::Resize(image, fitted(image.width), fitted(image.height), kSharp);
    const oort::Tensor map = detect_.Forward({oort::ToTensor(resized, kAroundZero)}).at(0);
    std::vector<Line> lines;
    for (const oort::Region& region : oort::FindRegions(map)) {
      Line line{region.corners, "", 0};
      for (oort::Point& point : line.corners) {
        point.x = Back(point.x, resized.width, image.width);
        point.y = Back(point.y, resized.height, image.height);
      }
      const auto& [a, b, c, d] = line.corners;
      const float width = std::hypot(a.x - b.x, a.y - b.y);
      const float height = std::hypot(a.x - d.x, a.y - d.y);
      if (width > 3 && height > 3 && c.x >= 0) lines.push_back(line);
    }
    return lines;
  }

  static float Back(float value, int from, int to) {
    const float scaled = value * static_cast<float>(to) / static_cast<float>(from);
    return std::clamp(std::nearbyint(scaled), 0.0f, static_cast<float>(to - 1));
  }

  oort::Image Upright(oort::Image line) {
    if (line.height >= 1.5 * line.width) line = oort::Turn(line, 1);
    const oort::Tensor turned = direction_.Forward({LineTensor(line, kDirectionWidth)}).at(0);
    const std::span<const float> scores = turned.span<float>();
    const bool on_its_head = scores.size() == 2 && scores[1] > kSureTurned;
    return on_its_head ? oort::Turn(line, 2) : line;
  }

  /// The likeliest character of each step; 0 is none, and repetitions without it between are one.
  void Recognize(const oort::Image& image, Line& line) {
    const double ratio = static_cast<double>(image.width) / image.height;
    const int width = std::clamp(static_cast<int>(kLineHeight * ratio), kLeastWidth, kMostWidth);
    const oort::Tensor output = recognize_.Forward({LineTensor(image, width)}).at(0);
    const auto classes = static_cast<size_t>(output.dim(2));
    size_t last = 0, count = 0;
    for (int64_t step = 0; step < output.dim(1); ++step) {
      const float* row = output.data<float>() + static_cast<size_t>(step) * classes;
      const auto best = static_cast<size_t>(std::max_element(row, row + classes) - row);
      if (best != 0 && best != last) {
        line.text += best <= characters_.size() ? characters_[best - 1] : " ";
        line.score += static_cast<double>(row[best]);
        ++count;
      }
      last = best;
    }
    line.score /= static_cast<double>(std::max<size_t>(count, 1));
  }

  oort::Session detect_, direction_, recognize_;
  std::vector<std::string> characters_;
};

void Read(Reader& reader, const fs::path& path, const fs::path& out) {
  oort::Image image = oort::ReadImage(path);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Line> lines = reader.Read(image);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%s: %zu lines in %.2f s\n", path.string().c_str(), lines.size(), took.count());
  for (const auto& [quad, text, score] : lines) {
    const auto [left, right] = std::minmax({quad[0].x, quad[1].x, quad[2].x, quad[3].x});
    const auto [top, bottom] = std::minmax({quad[0].y, quad[1].y, quad[2].y, quad[3].y});
    std::printf("  %.3f  %5.0f %5.0f %5.0f %5.0f  %s\n", score, static_cast<double>(left),
                static_cast<double>(top), static_cast<double>(right), static_cast<double>(bottom),
                text.c_str());
    oort::DrawBox(image, {left, top, right, bottom}, oort::Palette(1));
  }
  if (!out.empty()) oort::WriteImage(out / path.filename().replace_extension(".png"), image);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> arguments(argv + 1, argv + argc);
  fs::path out;
  if (arguments.size() > 2 && arguments[arguments.size() - 2] == "--out") {
    out = arguments.back();
    arguments.resize(arguments.size() - 2);
  }
  if (arguments.size() < 2) {
    std::cerr << "usage: read MODEL_FOLDER PICTURE... [--out FOLDER]\n"
                 "  demos/run read PICTURE...   fetches PP-OCR first\n";
    return 2;
  }
  try {
    Reader reader(arguments[0]);
    if (!out.empty()) fs::create_directories(out);
    for (size_t i = 1; i < arguments.size(); ++i) Read(reader, arguments[i], out);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "read: " << error.what() << '\n';
    return 1;
  }
}
