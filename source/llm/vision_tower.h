// SPDX-License-Identifier: MIT
// The part of a vision-language model that reads pictures, and what stands for them in a text.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "oort/language_model.h"
#include "oort/session.h"

namespace oort {

struct VisionFiles;

/// Thread contract: any number of threads; pictures are read one at a time.
class VisionTower {
 public:
  VisionTower(const VisionFiles& files, const LoadOptions& load);

  const PictureFormat& format() const { return format_; }
  size_t weight_bytes() const { return weight_bytes_; }
  /// With what reading the largest picture takes: pixels, activations, and its rows.
  ReaderMemory memory() const;
  std::shared_ptr<const Picture> Encode(const PictureTiles& tiles) const;

 private:
  void Check(const PictureTiles& tiles) const;

  PictureFormat format_;
  int64_t elements_ = 0;  ///< of a row
  size_t weight_bytes_ = 0;
  mutable std::mutex mutex_;  ///< of the session
  std::unique_ptr<Session> session_;
};

/// What is thrown where a picture is given to a model that reads none.
Error NoPictures(const LanguageModel& model);

/// A chat in which the next picture's tokens stand for each place where the template has put
/// `place`, the text of PictureFormat::token: what users write is none. Throws kInvalidArgument
/// unless there are as many places as pictures.
RenderedChat WithPictures(const RenderedChat& chat, std::string_view place,
                          const PictureFormat& format,
                          std::span<const std::shared_ptr<const Picture>> pictures);

/// The messages with each content that is text as a list of one part: templates of vision-language
/// models know no other.
std::string ContentInParts(const std::string& messages);

}  // namespace oort
