// SPDX-License-Identifier: MIT
// Pictures for vision-language models, from files. Link oort::media.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "oort/language_model.h"
#include "oort/picture.h"

namespace oort {

/// A picture cut as the processors of SmolVLM and Idefics3 cut it, with sizes and pixels of
/// Pillow's resizing, but for roundings. Throws kLimit for one that would have more than
/// format.most_tiles.
PictureTiles CutTiles(const Image& image, const PictureFormat& format);

struct PictureReaderOptions {
  /// Pixels of a picture at most: one that has more is refused before it is decoded.
  int64_t most_pixels = int64_t{32} << 20;
  /// Files and what was read of them, so many bytes together, are kept: who talks about a picture
  /// sends it again with every message.
  size_t kept_bytes = size_t{128} << 20;
};

/// Thread contract: any number of threads. One picture is decoded and read at a time; who asks for
/// one that is kept does not wait for that.
class PictureReader {
 public:
  explicit PictureReader(std::shared_ptr<const LanguageModel> model,
                         const PictureReaderOptions& options = {});

  /// The picture in a file's bytes; the same one for the same bytes, as long as it is kept. Throws
  /// as DecodeImage and LanguageModel::EncodePicture do.
  std::shared_ptr<const Picture> Read(std::span<const std::byte> file,
                                      std::string_view name = "picture");
  std::shared_ptr<const Picture> Read(const std::filesystem::path& path);
  /// A picture that is decoded already.
  std::shared_ptr<const Picture> Read(const Image& image);

 private:
  struct Kept {
    std::string file;  ///< its bytes, or for an Image its size and pixels
    std::shared_ptr<const Picture> picture;
    size_t bytes() const { return file.size() + picture->embeddings.bytes(); }
  };
  std::shared_ptr<const Picture> Find(std::string_view file);
  void Keep(Kept read);
  template <typename MakeImage>
  std::shared_ptr<const Picture> ReadKept(std::string_view file, const MakeImage& make_image);

  std::shared_ptr<const LanguageModel> model_;
  const PictureReaderOptions options_;
  std::mutex reading_;    // held while a picture is read
  std::mutex mutex_;      // of what follows
  std::list<Kept> kept_;  ///< what was asked for last is first
  size_t bytes_ = 0;      ///< of these
};

}  // namespace oort
