// SPDX-License-Identifier: MIT
// Pictures in the prompts of vision-language models. oort/picture_reader.h makes them of files.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "oort/image.h"
#include "oort/tensor.h"

namespace oort {

/// How a model wants pictures, as the files of its processor say.
struct PictureFormat {
  int64_t tile = 0;          ///< pixels of a tile's side
  int64_t longest_side = 0;  ///< what the longer side of a picture becomes first; 0: it stays
  /// Into tiles, with one of the whole picture behind them; else that one is all there is.
  bool splits = true;
  Filter filter = Filter::kLanczos;  ///< of every change of size
  double factor = 1.0 / 255;         ///< of each pixel, 0 … 255, before mean and std
  std::array<double, 3> mean = {0.5, 0.5, 0.5}, std = {0.5, 0.5, 0.5};
  int64_t tile_tokens = 0;  ///< that stand for a tile in a prompt
  int64_t most_tiles = 0;   ///< of a picture, with the one of the whole
  int32_t token = 0;        ///< of a prompt, that stands for a row of a picture
};

/// A picture as pixels that the model reads.
struct PictureTiles {
  int64_t rows = 0, columns = 0;  ///< of tiles; both 0: one tile is the whole picture
  Tensor pixels;                  ///< (tiles, 3, tile, tile) of f32; the last is the whole picture
};

/// A picture as the language model reads it: a row of embeddings for each of its tokens.
struct Picture {
  int64_t rows = 0, columns = 0;  ///< of tiles, as in PictureTiles
  Tensor embeddings;              ///< (tokens, hidden) of f32
  int32_t number = 0;             ///< no other picture of this process has it
};

}  // namespace oort
