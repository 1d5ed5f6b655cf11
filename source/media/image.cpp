// SPDX-License-Identifier: MIT
#include "oort/image.h"

#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <memory>
#include <string>

#include "core/file_writer.h"
#include "media/stb.h"
#include "oort/source.h"

namespace oort {
namespace {

constexpr int kJpegQuality = 92;

std::vector<unsigned char> RoundPixels(const Image& image) {
  std::vector<unsigned char> bytes(image.pixels.size());
  std::transform(image.pixels.begin(), image.pixels.end(), bytes.begin(), [](float pixel) {
    // A NaN compares false, so that it becomes 0.
    return pixel > 0 ? static_cast<unsigned char>(std::lround(std::min(pixel, 255.0f)))
                     : static_cast<unsigned char>(0);
  });
  return bytes;
}

/// A file is begun only when all of its bytes are there.
void KeepBytes(void* context, void* data, int size) {
  static_cast<std::string*>(context)->append(static_cast<const char*>(data),
                                             static_cast<size_t>(size));
}

std::string EncodePpm(const media::StbPixels& pixels, size_t size) {
  std::string text = pixels.channels == 1 ? "P5\n" : "P6\n";
  text += std::to_string(pixels.width) + " " + std::to_string(pixels.height) + "\n255\n";
  return text.append(reinterpret_cast<const char*>(pixels.bytes), size);
}

std::string EncodeAs(std::string ending, const Image& image, const std::filesystem::path& path) {
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::vector<unsigned char> bytes = RoundPixels(image);
  const media::StbPixels pixels{image.width, image.height, image.channels, bytes.data()};
  std::string text;
  bool done = true;
  if (ending == ".png") {
    done = media::EncodePng(KeepBytes, &text, pixels);
  } else if (ending == ".jpg" || ending == ".jpeg") {
    done = media::EncodeJpeg(KeepBytes, &text, pixels, kJpegQuality);
  } else if (ending == ".ppm" || ending == ".pgm") {
    text = EncodePpm(pixels, bytes.size());
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                "'" + path.string() + "': a picture is written as .png, .jpg, .ppm or .pgm");
  }
  if (!done) throw Error(ErrorCode::kIo, "'" + path.string() + "' cannot be encoded");
  return text;
}

}  // namespace

Image MakeImage(int width, int height, int channels, float value) {
  const bool sound = width >= 1 && height >= 1 && (channels == 1 || channels == 3);
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (!sound) {
    throw Error(ErrorCode::kInvalidArgument, "there is no picture of " + size + " pixels and " +
                                                 std::to_string(channels) + " channels");
  }
  if (int64_t{width} * height > kMostPixels) {
    throw Error(ErrorCode::kLimit,
                "a picture of " + size + " pixels has more than 64 million of them");
  }
  return {width, height, channels,
          std::vector<float>(static_cast<size_t>(width) * static_cast<size_t>(height) *
                                 static_cast<size_t>(channels),
                             value)};
}

Image DecodeImage(std::span<const std::byte> bytes, std::string_view name, int64_t most) {
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const std::string quoted = "'" + std::string(name) + "'";
  int width = 0, height = 0, channels = 0;
  const int length = bytes.size() > INT_MAX ? 0 : static_cast<int>(bytes.size());
  if (length == 0 || stbi_info_from_memory(data, length, &width, &height, &channels) == 0) {
    throw Error(ErrorCode::kInvalidModel,
                quoted + " is neither .npy nor PNG, JPEG, BMP, PPM or PGM");
  }
  most = std::min(most, kMostPixels);
  if (int64_t{width} * height > most) {
    throw Error(ErrorCode::kLimit, quoted + " has " + std::to_string(width) + " x " +
                                       std::to_string(height) + " pixels, more than " +
                                       std::to_string(most >> 20) + " million");
  }
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(data, length, &width, &height, &channels, 3), stbi_image_free);
  if (!pixels) {
    throw Error(ErrorCode::kInvalidModel, quoted + " is damaged: " + stbi_failure_reason());
  }
  Image image = MakeImage(width, height, 3);
  std::copy_n(pixels.get(), image.pixels.size(), image.pixels.begin());
  return image;
}

Image ReadImage(const std::filesystem::path& path) {
  const auto source = ByteSource::File(path);
  const auto buffer = source->MapOrRead(0, source->size());
  return DecodeImage({static_cast<const std::byte*>(buffer->data()), source->size()},
                     path.string());
}

void WriteImage(const std::filesystem::path& path, const Image& image) {
  const std::string text = EncodeAs(path.extension().string(), image, path);
  FileWriter file(path);
  file.Write(text);
  file.Finish(false);
  file.Publish();
}

Image Crop(const Image& image, int left, int top, int width, int height, float fill) {
  Image result = MakeImage(width, height, image.channels, fill);
  const int64_t first = std::max<int64_t>(0, -int64_t{left});
  const int64_t last = std::min<int64_t>(width, int64_t{image.width} - left);
  if (first >= last) return result;
  for (int64_t y = 0; y < height; ++y) {
    const int64_t from = y + top;
    if (from < 0 || from >= image.height) continue;
    const float* in = image.pixels.data() + (from * image.width + left + first) * image.channels;
    std::copy_n(in, (last - first) * image.channels,
                result.pixels.data() + (y * width + first) * image.channels);
  }
  return result;
}

Image CenterCrop(const Image& image, int width, int height) {
  // Halves are rounded to even numbers, as Python's round does for torchvision.
  const auto start = [](int extent, int wanted) {
    return static_cast<int>(std::nearbyint((extent - wanted) / 2.0));
  };
  return Crop(image, start(image.width, width), start(image.height, height), width, height);
}

Image ToGray(const Image& image) {
  if (image.channels == 1) return image;
  Image gray = MakeImage(image.width, image.height, 1);
  for (size_t i = 0; i < gray.pixels.size(); ++i) {
    const float* rgb = image.pixels.data() + 3 * i;
    gray.pixels[i] = 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
  }
  return gray;
}

}  // namespace oort
