// SPDX-License-Identifier: MIT
// How much the columns of each matrix matter, and llama.cpp's file of that: the imatrix.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parser/checkpoint/decoder_config.h"

namespace oort::llm_quantize {

/// Of the inputs that a matrix multiplies: means of squares by columns, over so many tokens.
struct ColumnImportance {
  std::vector<float> mean_squares;
  int64_t tokens = 0;
};

/// By the names of the llama layout ("model.layers.0.mlp.up_proj.weight").
using Importance = std::map<std::string, ColumnImportance, std::less<>>;

/// What an error in each column weighs in a search for scales: the means of squares, none of them
/// 0, so that columns without inputs keep their weights as well as they can.
std::vector<float> ErrorWeights(const ColumnImportance& importance);

/// The tensor of a GGUF that holds a matrix of the llama layout: "blk.0.ffn_up.weight".
std::string GgufNameOf(const std::string& name);

/// A GGUF of the general type "imatrix", as llama.cpp reads and writes. `datasets` and the length
/// of a window are for people.
void WriteImportance(const Importance& importance, std::span<const std::string> datasets,
                     int64_t window, const std::filesystem::path& path);
/// Throws kInvalidModel for a file that is none, and for entries of the wrong size; those of
/// matrices that the model does not have are left out.
Importance ReadImportance(const std::filesystem::path& path, const DecoderConfig& config);

}  // namespace oort::llm_quantize
