// SPDX-License-Identifier: MIT
#include "oort/picture_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oort/error.h"
#include "oort/source.h"

namespace oort {
namespace {

struct Size {
  int64_t width = 0, height = 0;
};

/// Halves and fractions are cut as Python's int does it.
int64_t Scaled(int64_t extent, double ratio) {
  return static_cast<int64_t>(static_cast<double>(extent) * ratio);
}

double RatioOf(const Size& size) {
  return static_cast<double>(size.width) / static_cast<double>(size.height);
}

/// The longer side becomes `longest`, the other one even.
Size WithLongest(Size size, int64_t longest) {
  const double ratio = RatioOf(size);
  const bool wide = size.width >= size.height;
  int64_t other =
      wide ? static_cast<int64_t>(static_cast<double>(longest) / ratio) : Scaled(longest, ratio);
  other = std::max<int64_t>(1, other + other % 2);
  return wide ? Size{longest, other} : Size{other, longest};
}

int64_t WholeTiles(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile * tile; }

/// Both sides become whole numbers of tiles.
Size InTiles(Size size, int64_t tile) {
  const double ratio = RatioOf(size);
  if (size.width >= size.height) {
    const int64_t width = WholeTiles(size.width, tile);
    const auto height = static_cast<int64_t>(static_cast<double>(width) / ratio);
    return {width, WholeTiles(std::max<int64_t>(1, height), tile)};
  }
  const int64_t height = WholeTiles(size.height, tile);
  return {WholeTiles(std::max<int64_t>(1, Scaled(height, ratio)), tile), height};
}

/// Between changes of size pixels are bytes, as Pillow has them.
Image Resized(const Image& image, Size size, Filter filter) {
  Image resized = Resize(image, static_cast<int>(size.width), static_cast<int>(size.height),
                         {.filter = filter, .antialias = true});
  for (float& pixel : resized.pixels) pixel = std::clamp(std::floor(pixel + 0.5F), 0.0F, 255.0F);
  return resized;
}

/// The part of a picture that begins there, as channels of f32.
void WriteTile(const Image& image, int64_t left, int64_t top, const PictureFormat& format,
               float* to) {
  for (size_t channel = 0; channel < 3; ++channel) {
    const double mean = format.mean[channel], std = format.std[channel];
    // A gray picture has one channel, which is all three.
    const int from = image.channels == 3 ? static_cast<int>(channel) : 0;
    for (int64_t y = 0; y < format.tile; ++y) {
      for (int64_t x = 0; x < format.tile; ++x) {
        const double pixel =
            image.at(static_cast<int>(top + y), static_cast<int>(left + x), from) * format.factor;
        *to++ = static_cast<float>((pixel - mean) / std);
      }
    }
  }
}

}  // namespace

PictureTiles CutTiles(const Image& image, const PictureFormat& format) {
  Size size{image.width, image.height};
  if (size.width < 1 || size.height < 1) {
    throw Error(ErrorCode::kInvalidArgument, "a picture has pixels, this one has none");
  }
  const int64_t tile = format.tile;
  if (format.longest_side > 0) size = WithLongest(size, format.longest_side);
  const Size first = size;
  PictureTiles tiles;
  if (format.splits) {
    size = InTiles(size, tile);
    if (size.width > tile || size.height > tile) {
      tiles.rows = size.height / tile;
      tiles.columns = size.width / tile;
    }
  }
  const int64_t count = tiles.rows * tiles.columns + 1;
  if (count > format.most_tiles) {
    throw Error(ErrorCode::kLimit, "a picture of " + std::to_string(image.width) + " x " +
                                       std::to_string(image.height) + " pixels would have " +
                                       std::to_string(count) + " tiles, more than " +
                                       std::to_string(format.most_tiles) + ": make it smaller");
  }
  Image whole = Resized(image, first, format.filter);
  if (format.splits) whole = Resized(whole, size, format.filter);
  tiles.pixels = Tensor(DType::kF32, Shape{count, 3, tile, tile});
  float* to = tiles.pixels.data<float>();
  for (int64_t row = 0; row < tiles.rows; ++row) {
    for (int64_t column = 0; column < tiles.columns; ++column) {
      WriteTile(whole, column * tile, row * tile, format, to);
      to += 3 * tile * tile;
    }
  }
  WriteTile(Resized(whole, {tile, tile}, format.filter), 0, 0, format, to);
  return tiles;
}

PictureReader::PictureReader(std::shared_ptr<const LanguageModel> model,
                             const PictureReaderOptions& options)
    : model_(std::move(model)), options_(options) {}

/// The picture that was read of these bytes; null where none is kept.
std::shared_ptr<const Picture> PictureReader::Find(std::string_view file) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(kept_, file, &Kept::file);
  if (known == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, known);
  return known->picture;
}

void PictureReader::Keep(Kept read) {
  if (read.bytes() > options_.kept_bytes) return;
  const std::lock_guard lock(mutex_);
  const size_t bytes = read.bytes();
  kept_.push_front(std::move(read));
  bytes_ += bytes;
  while (bytes_ > options_.kept_bytes) {
    bytes_ -= kept_.back().bytes();
    kept_.pop_back();
  }
}

/// `file` tells which picture it is, and make_image() gives its pixels where it is not known yet.
template <typename MakeImage>
std::shared_ptr<const Picture> PictureReader::ReadKept(std::string_view file,
                                                       const MakeImage& make_image) {
  if (auto known = Find(file)) return known;
  const std::lock_guard lock(reading_);
  if (auto known = Find(file)) return known;  // by who was first
  const PictureFormat* const format = model_->picture_format();
  if (format == nullptr) return model_->EncodePicture({});  // says why there are none
  const PictureTiles tiles = CutTiles(make_image(), *format);
  std::shared_ptr<const Picture> picture = model_->EncodePicture(tiles);
  Keep({std::string(file), picture});
  return picture;
}

std::shared_ptr<const Picture> PictureReader::Read(std::span<const std::byte> file,
                                                   std::string_view name) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  return ReadKept(bytes, [&] { return DecodeImage(file, name, options_.most_pixels); });
}

std::shared_ptr<const Picture> PictureReader::Read(const Image& image) {
  const int64_t pixels = static_cast<int64_t>(image.width) * image.height;
  if (image.width < 1 || image.height < 1 || (image.channels != 1 && image.channels != 3) ||
      std::ssize(image.pixels) != pixels * image.channels) {
    throw Error(ErrorCode::kInvalidArgument,
                "a picture has pixels of 1 or 3 channels, as many as its width and height say");
  }
  if (pixels > options_.most_pixels) {
    throw Error(ErrorCode::kLimit, "a picture has at most " + std::to_string(options_.most_pixels) +
                                       " pixels, this one " + std::to_string(pixels));
  }
  // No file begins so.
  std::string known =
      '\0' + std::to_string(image.width) + 'x' + std::to_string(image.channels) + ':';
  known.append(reinterpret_cast<const char*>(image.pixels.data()),
               image.pixels.size() * sizeof(float));
  return ReadKept(known, [&]() -> const Image& { return image; });
}

std::shared_ptr<const Picture> PictureReader::Read(const std::filesystem::path& path) {
  const auto source = ByteSource::File(path);
  const auto buffer = source->MapOrRead(0, source->size());
  return Read({static_cast<const std::byte*>(buffer->data()), source->size()}, path.string());
}

}  // namespace oort
