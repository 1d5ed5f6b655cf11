// SPDX-License-Identifier: MIT
// Objects on pictures: a YOLO finds boxes, and they are drawn with their names.
//   detect MODEL_FOLDER PICTURE_OR_FOLDER... [--out FOLDER] [--score S]
// A folder is taken as the frames of a film, sorted by name. The network gives (1, 4 + classes,
// boxes): centre and size in pixels of its input, and one score for each class, as YOLOv8 and
// YOLO11 do.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "oort/image.h"
#include "oort/oort.h"

namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path model, out = "detected";
  std::vector<fs::path> pictures;
  float score = 0.25f;
};

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The pictures that an argument names.
std::vector<fs::path> PicturesOf(const fs::path& place) {
  if (!fs::is_directory(place)) return {place};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(place)) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".png" || ending == ".jpg" || ending == ".jpeg" || ending == ".ppm") {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Boxes whose best class has at least `least`, in pixels of the network's input.
std::vector<oort::Detection> Decode(const oort::Tensor& output, float least) {
  if (output.rank() != 3 || output.dim(0) != 1 || output.dim(1) < 5) {
    throw oort::Error(oort::ErrorCode::kInvalidArgument, "the network gives " + output.ToString() +
                                                             " instead of (1, 4 + classes, boxes)");
  }
  const int64_t classes = output.dim(1) - 4, boxes = output.dim(2);
  const float* values = output.data<float>();
  std::vector<float> best(static_cast<size_t>(boxes), least);
  std::vector<int> labels(static_cast<size_t>(boxes), -1);
  for (int64_t c = 0; c < classes; ++c) {
    const float* row = values + (4 + c) * boxes;
    for (size_t i = 0; i < best.size(); ++i) {
      if (row[i] > best[i]) {
        best[i] = row[i];
        labels[i] = static_cast<int>(c);
      }
    }
  }
  std::vector<oort::Detection> found;
  for (size_t i = 0; i < best.size(); ++i) {
    if (labels[i] < 0) continue;
    const auto value = [&](int64_t row) { return values[row * boxes + static_cast<int64_t>(i)]; };
    const float x = value(0), y = value(1), w = value(2) / 2, h = value(3) / 2;
    found.push_back({{x - w, y - h, x + w, y + h}, best[i], labels[i]});
  }
  return found;
}

class Detector {
 public:
  Detector(const fs::path& folder, float least)
      : session_(oort::RuntimeGraph::Load(folder / "model.pnnx.param", folder / "model.pnnx.bin")),
        labels_(ReadLines(folder / "labels.txt")),
        least_(least) {
    const oort::Port& port = session_.graph().inputs().at(0);
    if (!port.has_shape || port.shape.rank() != 4 || !port.shape.IsKnown()) {
      throw oort::Error(oort::ErrorCode::kInvalidArgument,
                        "the network does not say how large its pictures are");
    }
    height_ = static_cast<int>(port.shape[2]);
    width_ = static_cast<int>(port.shape[3]);
  }

  std::vector<oort::Detection> Find(const oort::Image& image) {
    const oort::Letterboxed boxed = oort::Letterbox(image, width_, height_);
    const std::vector<oort::Tensor> outputs = session_.Forward({oort::ToTensor(boxed.image)});
    std::vector<oort::Detection> found = oort::Suppress(Decode(outputs.at(0), least_));
    for (oort::Detection& one : found) one.box = boxed.ToOriginal(one.box);
    return found;
  }

  std::string Label(int index) const {
    const auto i = static_cast<size_t>(index);
    return i < labels_.size() ? labels_[i] : std::to_string(index);
  }

 private:
  oort::Session session_;
  std::vector<std::string> labels_;
  float least_;
  int width_ = 0, height_ = 0;
};

void Draw(oort::Image& image, const Detector& detector, const std::vector<oort::Detection>& found) {
  const int size = std::max(1, std::min(image.width, image.height) / 320);
  for (const oort::Detection& one : found) {
    const oort::Color color = oort::Palette(one.label);
    oort::DrawBox(image, one.box, color, 2 * size);
    const float y = std::max(0.0f, one.box.y0 - 12.0f * static_cast<float>(size));
    oort::DrawLabel(image, one.box.x0, y, detector.Label(one.label), color, size);
  }
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if ((argument == "--out" || argument == "--score") && i + 1 < argc) {
      ++i;
      if (argument == "--out") options.out = argv[i];
      if (argument == "--score") options.score = std::strtof(argv[i], nullptr);
    } else if (options.model.empty()) {
      options.model = argument;
    } else {
      for (const fs::path& path : PicturesOf(argument)) options.pictures.push_back(path);
    }
  }
  return options;
}

void Run(const Options& options) {
  Detector detector(options.model, options.score);
  fs::create_directories(options.out);
  std::chrono::duration<double> busy{0};
  for (const fs::path& path : options.pictures) {
    const auto start = std::chrono::steady_clock::now();
    oort::Image image = oort::ReadImage(path);
    const std::vector<oort::Detection> found = detector.Find(image);
    busy += std::chrono::steady_clock::now() - start;
    const fs::path out = options.out / path.filename().replace_extension(".png");
    std::printf("%s -> %s\n", path.string().c_str(), out.string().c_str());
    for (const auto& [box, score, label] : found) {
      std::printf("  %.3f  %7.1f %7.1f %7.1f %7.1f  %s\n", static_cast<double>(score),
                  static_cast<double>(box.x0), static_cast<double>(box.y0),
                  static_cast<double>(box.x1), static_cast<double>(box.y1),
                  detector.Label(label).c_str());
    }
    Draw(image, detector, found);
    oort::WriteImage(out, image);
  }
  std::printf("%zu pictures, %.1f a second, from file to boxes\n", options.pictures.size(),
              static_cast<double>(options.pictures.size()) / busy.count());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = Parse(argc, argv);
    if (options.pictures.empty()) {
      std::cerr << "usage: detect MODEL_FOLDER PICTURE_OR_FOLDER... [--out FOLDER] [--score S]\n"
                   "  demos/run detect PICTURE...   fetches YOLO11n first\n";
      return 2;
    }
    Run(options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "detect: " << error.what() << '\n';
    return 1;
  }
}
