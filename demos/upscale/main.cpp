// SPDX-License-Identifier: MIT
// Enlarges a picture with a super-resolution network, tile by tile: memory depends on the tile, not
// on the picture.
//   upscale MODEL_FOLDER PICTURE OUT.png [--tile PIXELS] [--margin PIXELS]
// The network takes (1, 3, height, width) of 0 … 1, of any size, and gives the same picture
// enlarged by a whole factor. A tile is computed with a margin around it that the network may look
// at. Where the margin is at least as wide as the network sees (18 pixels for 18 convolutions of 3
// x 3), the answer is that for the whole picture.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "oort/image.h"
#include "oort/oort.h"

namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<fs::path> places;  // model, picture, out
  int tile = 192, margin = 18;
};

struct Span {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
};

/// [begin, end) grown by the margin, within [0, extent).
Span Grown(const Span& span, int margin, int extent) {
  return {std::max(0, span.begin - margin), std::min(extent, span.end + margin)};
}

int FactorOf(const oort::Image& small, const oort::Image& large) {
  const int factor = large.width / small.width;
  if (factor < 1 || factor * small.width != large.width || factor * small.height != large.height) {
    throw oort::Error(oort::ErrorCode::kInvalidArgument,
                      "the network made " + std::to_string(large.width) + " x " +
                          std::to_string(large.height) + " pixels of " +
                          std::to_string(small.width) + " x " + std::to_string(small.height) +
                          ", which is no whole factor");
  }
  return factor;
}

/// Copies the part of `tile` that begins at (left, top) to (x, y) of the picture.
void Paste(const oort::Image& tile, int left, int top, oort::Image& picture, int x, int y,
           int width, int height) {
  const auto channels = static_cast<size_t>(picture.channels);
  for (int row = 0; row < height; ++row) {
    const float* in =
        &tile.pixels[(static_cast<size_t>(top + row) * static_cast<size_t>(tile.width) +
                      static_cast<size_t>(left)) *
                     channels];
    float* out =
        &picture.pixels[(static_cast<size_t>(y + row) * static_cast<size_t>(picture.width) +
                         static_cast<size_t>(x)) *
                        channels];
    std::copy_n(in, static_cast<size_t>(width) * channels, out);
  }
}

oort::Image Upscale(oort::Session& session, const oort::Image& image, const Options& options) {
  oort::Image result;
  for (int y = 0; y < image.height; y += options.tile) {
    for (int x = 0; x < image.width; x += options.tile) {
      const Span rows{y, std::min(y + options.tile, image.height)};
      const Span columns{x, std::min(x + options.tile, image.width)};
      const Span seen_rows = Grown(rows, options.margin, image.height);
      const Span seen_columns = Grown(columns, options.margin, image.width);
      const oort::Image seen = oort::Crop(image, seen_columns.begin, seen_rows.begin,
                                          seen_columns.size(), seen_rows.size());
      const oort::Image large = oort::ToImage(session.Forward({oort::ToTensor(seen)}).at(0));
      const int factor = FactorOf(seen, large);
      if (result.pixels.empty()) {
        result = oort::MakeImage(image.width * factor, image.height * factor, 3);
      }
      Paste(large, (x - seen_columns.begin) * factor, (y - seen_rows.begin) * factor, result,
            x * factor, y * factor, columns.size() * factor, rows.size() * factor);
    }
  }
  return result;
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if ((argument == "--tile" || argument == "--margin") && i + 1 < argc) {
      (argument == "--tile" ? options.tile : options.margin) = std::atoi(argv[++i]);
    } else {
      options.places.emplace_back(argument);
    }
  }
  options.tile = std::clamp(options.tile, 1, 4096);
  options.margin = std::clamp(options.margin, 0, 1024);
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = Parse(argc, argv);
    if (options.places.size() != 3) {
      std::cerr << "usage: upscale MODEL_FOLDER PICTURE OUT.png [--tile PIXELS] [--margin PIXELS]\n"
                   "  demos/run upscale PICTURE OUT.png   fetches a Real-ESRGAN first\n";
      return 2;
    }
    const fs::path& folder = options.places[0];
    oort::Session session(
        oort::RuntimeGraph::Load(folder / "model.pnnx.param", folder / "model.pnnx.bin"));
    const oort::Image image = oort::ReadImage(options.places[1]);
    const auto start = std::chrono::steady_clock::now();
    const oort::Image large = Upscale(session, image, options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    oort::WriteImage(options.places[2], large);
    std::printf("%d x %d -> %d x %d in %.2f s: %s\n", image.width, image.height, large.width,
                large.height, took.count(), options.places[2].string().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "upscale: " << error.what() << '\n';
    return 1;
  }
}
