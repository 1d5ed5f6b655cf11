// SPDX-License-Identifier: MIT
// What is on a photograph: the five likeliest classes of an ImageNet network, with bars.
//   classify MODEL_FOLDER PICTURE...
// MODEL_FOLDER has model.pnnx.param, its .bin and labels.txt, as tools/export-model.py writes them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "cli/chart.h"
#include "oort/image.h"
#include "oort/oort.h"

namespace {

namespace fs = std::filesystem;
constexpr size_t kShown = 5;
constexpr int kBarWidth = 30;

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The middle of the picture, as networks are tested on ImageNet: the shorter side becomes 8/7 of
/// what the network takes, and the middle of that is cut out.
oort::Tensor Prepare(const oort::Image& image, const oort::Port& port) {
  const bool known = port.has_shape && port.shape.rank() == 4 && port.shape[2] > 0;
  const int side = known ? static_cast<int>(std::min<int64_t>(port.shape[2], 4096)) : 224;
  const oort::Image resized = oort::ResizeShorter(image, side * 8 / 7);
  return oort::ToTensor(oort::CenterCrop(resized, side, side));
}

void Print(const std::vector<double>& probabilities, const std::vector<std::string>& labels) {
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0U);
  const size_t shown = std::min(kShown, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  for (size_t i = 0; i < shown; ++i) {
    const size_t index = order[i];
    const std::string label = index < labels.size() ? labels[index] : std::to_string(index);
    std::printf("  %5.1f %%  %-28s %s\n", 100 * probabilities[index], label.c_str(),
                oort::cli::Bar(probabilities[index], kBarWidth).c_str());
  }
}

void Classify(oort::Session& session, const std::vector<std::string>& labels,
              const fs::path& path) {
  const oort::Tensor input = Prepare(oort::ReadImage(path), session.graph().inputs().at(0));
  const auto start = std::chrono::steady_clock::now();
  const oort::Tensor scores = session.Forward({input}).at(0).To(oort::DType::kF64);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("%s  (%.1f ms)\n", path.string().c_str(), took.count());
  Print(oort::cli::Softmax(scores.span<double>()), labels);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: classify MODEL_FOLDER PICTURE...\n"
                 "  demos/run classify PICTURE...   fetches MobileNet-v2 first\n";
    return 2;
  }
  try {
    const fs::path folder = argv[1];
    const auto graph =
        oort::RuntimeGraph::Load(folder / "model.pnnx.param", folder / "model.pnnx.bin");
    oort::Session session(graph);
    const std::vector<std::string> labels = ReadLines(folder / "labels.txt");
    for (int i = 2; i < argc; ++i) Classify(session, labels, argv[i]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "classify: " << error.what() << '\n';
    return 1;
  }
}
