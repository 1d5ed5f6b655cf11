// SPDX-License-Identifier: MIT
// Where pictures stand in a prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "oort/picture.h"

namespace oort {

/// A prompt has a token for each row of its pictures, which the model's vocabulary knows. The cache
/// and who shares its blocks must tell pictures apart: to them such a token is PictureToken, below
/// 0, so that two prompts begin alike only where they show the same pictures.
class PicturePlaces {
 public:
  /// Throws kInvalidArgument unless the prompt has as many of these tokens as the pictures have
  /// rows, and each row has `elements`.
  PicturePlaces(std::vector<std::shared_ptr<const Picture>> pictures,
                std::span<const int32_t> prompt, int32_t token, int64_t elements);

  /// The prompt with the tokens of pictures instead.
  std::vector<int32_t> Marked(std::span<const int32_t> prompt) const;
  /// The row of the token at that place of the prompt; null where it is none of a picture.
  const float* RowAt(int64_t position) const;

 private:
  /// Rows of one picture that follow each other in the prompt.
  struct Run {
    int64_t position = 0, count = 0;
    const Picture* picture = nullptr;
    int64_t row = 0;  ///< of the picture
  };
  std::vector<std::shared_ptr<const Picture>> pictures_;
  std::vector<Run> runs_;  ///< in order
};

}  // namespace oort
