// SPDX-License-Identifier: MIT
// Classifies pictures of handwritten digits with a small ResNet and draws what it thinks.
//   resnet models/digits models/digits/samples/*.png
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "cli/chart.h"
#include "oort/image.h"
#include "oort/oort.h"

namespace {

using oort::Image;
namespace fs = std::filesystem;

constexpr int kPictureWidth = 28, kPictureHeight = 14;  // a character is twice as high as wide
constexpr int kBarWidth = 40;

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The model was trained on bright ink on dark ground; a scan on paper has it the other way round.
bool IsOnBrightGround(const Image& gray) {
  double sum = 0;
  for (int x = 0; x < gray.width; ++x) sum += gray.at(0, x, 0) + gray.at(gray.height - 1, x, 0);
  return sum / (2.0 * gray.width) > 127.5;
}

/// One line of the picture in shades of gray.
std::string ShadeRow(const Image& gray, int y, bool invert) {
  static constexpr std::array<const char*, 5> kShades = {" ", "░", "▒", "▓", "█"};
  std::string row;
  for (int x = 0; x < gray.width; ++x) {
    const float ink = invert ? 255 - gray.at(y, x, 0) : gray.at(y, x, 0);
    row += kShades[static_cast<size_t>(std::clamp(ink / 52, 0.0f, 4.0f))];
  }
  return row;
}

std::string BarRow(const std::string& label, double probability, bool best) {
  std::array<char, 32> percent;
  std::snprintf(percent.data(), percent.size(), " %5.1f %% ", 100 * probability);
  return label + percent.data() + oort::cli::Bar(probability, kBarWidth) + (best ? "  ←" : "");
}

/// The picture on the left, the probabilities of all classes on the right.
void Draw(const Image& gray, bool invert, const std::vector<std::string>& labels,
          const std::vector<double>& probabilities) {
  const Image small = oort::Resize(gray, kPictureWidth, kPictureHeight);
  const auto best = static_cast<size_t>(
      std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
  const size_t first =
      (kPictureHeight - std::min<size_t>(probabilities.size(), kPictureHeight)) / 2;
  const size_t rows = std::max<size_t>(kPictureHeight, probabilities.size());
  for (size_t y = 0; y < rows; ++y) {
    const bool in_picture = y < static_cast<size_t>(kPictureHeight);
    std::cout << "  │"
              << (in_picture ? ShadeRow(small, static_cast<int>(y), invert)
                             : std::string(kPictureWidth, ' '))
              << "│  ";
    if (const size_t i = y - first; y >= first && i < probabilities.size()) {
      const std::string label = i < labels.size() ? labels[i] : std::to_string(i);
      std::cout << BarRow(label, probabilities[i], i == best);
    }
    std::cout << '\n';
  }
}

void Classify(oort::Session& session, const std::vector<std::string>& labels,
              const fs::path& path) {
  const Image gray = oort::ToGray(oort::ReadImage(path));
  const bool invert = IsOnBrightGround(gray);
  oort::Normalization normalization;
  normalization.invert = invert;
  const oort::Tensor input =
      oort::ImageToTensor(gray, session.graph().inputs().at(0), normalization);
  const std::vector<oort::Tensor> outputs = session.Forward({input});
  std::cout << '\n' << path.string() << '\n';
  const oort::Tensor scores = outputs.at(0).To(oort::DType::kF64);
  Draw(gray, invert, labels, oort::cli::Softmax(scores.span<double>()));
}

/// The first *.pnnx.param of a folder.
fs::path FindParam(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().string().ends_with(".pnnx.param")) return entry.path();
  }
  throw oort::Error(oort::ErrorCode::kNotFound, "no *.pnnx.param in '" + folder.string() + "'");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: resnet MODEL_FOLDER PICTURE...\n"
                 "  resnet models/digits models/digits/samples/*.png\n";
    return 2;
  }
  try {
    const fs::path folder = argv[1];
    const fs::path param = FindParam(folder);
    const auto graph = oort::RuntimeGraph::Load(param, fs::path(param).replace_extension(".bin"));
    oort::Session session(graph);
    const std::vector<std::string> labels = ReadLines(folder / "labels.txt");
    for (int i = 2; i < argc; ++i) Classify(session, labels, argv[i]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "resnet: " << error.what() << '\n';
    return 1;
  }
}
