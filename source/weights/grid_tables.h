// SPDX-License-Identifier: MIT
// Which points the grids of GGUF's formats of 1 to 3 bits have: a bit for each number that is one.
// The digits of a number, the first the lowest, stand for 8 weights in base 3 or for 4 in base 8.
#pragma once

#include <cstdint>

namespace oort {

inline constexpr int kBase3Words = 103;  ///< bits for 3^8 numbers
inline constexpr int kBase8Words = 64;   ///< bits for 8^4 numbers

extern const uint64_t kIq1SPoints[kBase3Words];
extern const uint64_t kIq2XxsPoints[kBase3Words];
extern const uint64_t kIq2XsPoints[kBase3Words];
extern const uint64_t kIq2SPoints[kBase3Words];
extern const uint64_t kIq3XxsPoints[kBase8Words];
extern const uint64_t kIq3SPoints[kBase8Words];

}  // namespace oort
