// SPDX-License-Identifier: MIT
// Frequencies of rotary embeddings, and the ways in which models stretch them to longer contexts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parser/checkpoint/decoder_config.h"

namespace oort {

struct RotaryScaling {
  enum class Kind : unsigned char {
    kNone,
    kLinear,    ///< all frequencies are divided by `factor`
    kLlama3,    ///< low ones are divided by `factor`, high ones stay, those between are mixed
    kYarn,      ///< the same by another ramp, and a magnitude
    kLongrope,  ///< each is divided by its short or long factor, and a magnitude
    kDivided,   ///< each is divided by its short factor
  };
  Kind kind = Kind::kNone;
  double factor = 1;
  int64_t original_context = 0;  ///< llama3, yarn, longrope
  double low_frequency_factor = 1, high_frequency_factor = 4;
  double beta_fast = 32, beta_slow = 1;
  double extrapolation = 1;  ///< yarn: how much of the ramp counts
  bool truncate = true;      ///< yarn: the ramp begins and ends at whole dimensions
  std::optional<double> mscale, mscale_all_dim;
  std::optional<double> attention_factor;  ///< the magnitude, where the file has it
  std::vector<float> short_factors, long_factors;
};

/// What a file says of the rotary embedding, before frequencies are made of it.
struct RotarySource {
  int64_t dims = 0;
  double base = 10000;
  RotaryScaling scaling;
};

/// Throws kInvalidModel where the numbers make no sense. All arithmetic is that of Hugging Face, in
/// f32, so that the frequencies are the same to the last bits.
RotaryConfig MakeRotary(int64_t dims, double base, const RotaryScaling& scaling);

}  // namespace oort
