// SPDX-License-Identifier: MIT
// Pictures in what Python says to a model.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "oort/language_model.h"

namespace oort::python {

namespace nb = nanobind;

using Pictures = std::vector<std::shared_ptr<const Picture>>;

/// A picture that a model has read, as Python holds it.
struct PictureHandle {
  std::shared_ptr<const Picture> picture;
};

/// Thread contract: any number of threads.
class PictureSource {
 public:
  virtual ~PictureSource() = default;
  /// `given`: the bytes of a file, or an array of bytes, (height, width) or (height, width, 1 or
  /// 3).
  virtual void Read(const nb::object& given, PictureHandle& read) = 0;
};

/// Throws kUnsupported in a build without pictures.
std::shared_ptr<PictureSource> MakePictureSource(std::shared_ptr<const LanguageModel> model);

}  // namespace oort::python
