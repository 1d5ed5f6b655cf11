// SPDX-License-Identifier: MIT
// Many inputs for a network: folders of pictures, .npy files with a sample in each row.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "oort/image.h"
#include "quantize/calibrate.h"

namespace oort::cli {

/// What the options say about one set of samples.
struct SampleFiles {
  std::vector<std::string> places;  ///< folders and files; NAME=PLACE picks an input by name
  size_t most = 256;                ///< of more, so many are taken at equal distances
  std::string labels;               ///< a file with the class of every sample, one a line; or none
};

struct SampleSet {
  quantize::Samples samples;
  std::vector<int64_t> labels;  ///< one for each sample, or none at all
};

/// Files of a folder and of the folders in it are sorted by name. Throws kNotFound where there are
/// none, and kInvalidArgument where labels or inputs differ in number.
SampleSet FindSamples(const std::vector<Port>& ports, const SampleFiles& files,
                      const Normalization& normalization);

}  // namespace oort::cli
