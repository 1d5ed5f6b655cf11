// SPDX-License-Identifier: MIT
// Pictures before and behind a network: files, sizes, tensors, boxes. Link oort::media.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "oort/runtime_graph.h"

namespace oort {

/// Rows of pixels of 1 (gray) or 3 (RGB) channels, each 0 … 255.
struct Image {
  int width = 0, height = 0, channels = 0;
  std::vector<float> pixels;

  float at(int y, int x, int channel) const { return pixels[Index(y, x, channel)]; }
  float& at(int y, int x, int channel) { return pixels[Index(y, x, channel)]; }

 private:
  size_t Index(int y, int x, int channel) const {
    const auto pixel = static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x);
    return pixel * static_cast<size_t>(channels) + static_cast<size_t>(channel);
  }
};

/// A picture of one brightness. Throws kInvalidArgument unless it has pixels and 1 or 3 channels,
/// and kLimit for more than 64 million pixels.
Image MakeImage(int width, int height, int channels, float value = 0);

/// PNG, JPEG, BMP, PPM or PGM, in RGB; transparency is dropped. Throws kIo, kNotFound,
/// kInvalidModel for what is no picture and kLimit for more than 64 million pixels.
Image ReadImage(const std::filesystem::path& path);
/// The most pixels that a picture may have.
inline constexpr int64_t kMostPixels = 64 << 20;
/// The same from memory; `name` is for messages. Throws kLimit for more pixels than `most`, before
/// any is decoded.
Image DecodeImage(std::span<const std::byte> bytes, std::string_view name = "picture",
                  int64_t most = kMostPixels);
/// PNG, JPEG (quality 92) or PPM, as the name ends; the file appears when it is whole. Pixels are
/// rounded. Throws kInvalidArgument for other names and kIo.
void WriteImage(const std::filesystem::path& path, const Image& image);

/// kLanczos is Pillow's, of three lobes; it needs antialias.
enum class Filter : unsigned char { kNearest, kBilinear, kBicubic, kLanczos };

struct ResizeOptions {
  Filter filter = Filter::kBilinear;
  /// When shrinking, every pixel counts, as in Pillow and in torchvision by default. Without it a
  /// new pixel sees its 2 x 2 (bilinear) or 4 x 4 (bicubic) neighbours, as in OpenCV.
  bool antialias = true;
};

/// Gives what torchvision's resize gives for a tensor of floats.
Image Resize(const Image& image, int width, int height, const ResizeOptions& options = {});
/// The shorter side becomes `side`, as torchvision's Resize(side) does it.
Image ResizeShorter(const Image& image, int side, const ResizeOptions& options = {});
/// A part of a picture; what lies outside of it becomes `fill`.
Image Crop(const Image& image, int left, int top, int width, int height, float fill = 0);
Image CenterCrop(const Image& image, int width, int height);
/// Luminance as in ITU-R BT.601.
Image ToGray(const Image& image);

/// Corners in pixels, with fractions: a picture of width 10 ends at x1 = 10.
struct Box {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  float width() const { return x1 - x0; }
  float height() const { return y1 - y0; }
};

struct Detection {
  Box box;
  float score = 0;
  int label = 0;
};

/// A picture in a frame of another shape, with its proportions kept and the rest filled.
struct Letterboxed {
  Image image;
  float scale = 1;
  int left = 0, top = 0;  ///< where the picture begins in the frame
  int original_width = 0, original_height = 0;

  /// A box of the frame in pixels of the original, cut at its edges.
  Box ToOriginal(const Box& box) const;
};

struct LetterboxOptions {
  float fill = 114;      ///< as YOLO was trained
  bool centered = true;  ///< else the picture stands at the top left
  ResizeOptions resize = {Filter::kBilinear, false};
};

Letterboxed Letterbox(const Image& image, int width, int height,
                      const LetterboxOptions& options = {});

/// The part of their union that two boxes share.
float Overlap(const Box& a, const Box& b);

struct SuppressionOptions {
  float overlap = 0.45f;  ///< a box that shares more than this with a better one is dropped
  bool by_label = true;   ///< only boxes of one label suppress each other
  size_t most = 300;      ///< how many are kept
};

/// Non-maximum suppression, best first, as torchvision's batched_nms. Scores that are no numbers
/// are dropped. Of more than 30,000 boxes only the best are looked at, as YOLO's programs do.
std::vector<Detection> Suppress(std::vector<Detection> detections,
                                const SuppressionOptions& options = {});

struct Point {
  float x = 0, y = 0;
};
/// Corners of a rectangle that may be turned, clockwise from the top left.
using Quad = std::array<Point, 4>;

struct Region {
  Quad corners;
  float score = 0;  ///< the mean of the map within
};

struct RegionOptions {
  float threshold = 0.3f;    ///< what of the map belongs to a region
  float least_score = 0.5f;  ///< regions below are dropped
  /// How far a region grows: this times its area over its perimeter, to each side. Maps of text are
  /// trained to show the middle of a line.
  float growth = 1.6f;
  size_t most = 1000;
};

/// Connected parts of a map (H,W) or (1,1,H,W) of f32, each as the rectangle of least area around
/// it, from top to bottom: what detectors of text do behind their network (differentiable
/// binarization). Parts below 3 pixels of width are dropped.
std::vector<Region> FindRegions(const Tensor& map, const RegionOptions& options = {});
/// What lies within, upright, by bicubic interpolation; beyond the edges the edge is repeated.
Image CropQuad(const Image& image, const Quad& quad);
/// By quarters, against the clock.
Image Turn(const Image& image, int quarters);

using Color = std::array<float, 3>;
/// The i-th of twelve colors that are easy to tell apart.
Color Palette(int index);
/// Parts outside of the picture are left out; `thickness` grows inwards.
void DrawBox(Image& image, const Box& box, const Color& color, int thickness = 2);
/// Letters of 12 * size pixels of height on a ground of `color`, their top left corner at (x, y).
/// What is not ASCII is drawn as '?'.
void DrawLabel(Image& image, float x, float y, std::string_view text, const Color& color,
               int size = 1);

/// What happens to a pixel after it was divided by 255: inverted, then (x - mean) / std.
struct Normalization {
  std::vector<double> mean, std;  ///< one value, or one for each channel; empty: 0 and 1
  bool invert = false;
};

/// As ImageNet's networks of torchvision want it.
Normalization ImageNetNormalization();

/// (1, channels, height, width) of f32.
Tensor ToTensor(const Image& image, const Normalization& normalization = {});
/// A picture of a tensor (C,H,W) or (1,C,H,W) of f32, times 255 and cut to 0 … 255.
Image ToImage(const Tensor& tensor);

/// Resized to the traced shape of the input (N,C,H,W), (C,H,W) or (H,W); gray if the model takes
/// one channel. An extent that the trace does not know is the picture's own. Integer inputs get
/// the pixels as they are.
Tensor ImageToTensor(const Image& image, const Port& port, const Normalization& normalization);

}  // namespace oort
