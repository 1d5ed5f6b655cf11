// SPDX-License-Identifier: MIT
// GGUF's formats of 1 to 3 bits: 8 or 4 weights are one point of a grid, which has a number.
#include <bit>
#include <cstring>

#include "weights/block_reader.h"
#include "weights/grid_tables.h"

namespace oort {
namespace {

/// The points of a grid, by their numbers.
template <int count, int width, int base>
struct Grid {
  int8_t points[count][width];

  /// `levels`: what the digits stand for.
  Grid(const uint64_t* bits, const int8_t (&levels)[base]) {
    int words = 1;
    for (int i = 0; i < width; ++i) words *= base;
    words = (words + 63) / 64;
    int found = 0;
    for (int word = 0; word < words; ++word) {
      for (uint64_t left = bits[word]; left != 0 && found < count; left &= left - 1) {
        int number = 64 * word + std::countr_zero(left);
        for (int8_t& weight : points[found]) {
          weight = levels[number % base];
          number /= base;
        }
        ++found;
      }
    }
  }
};

constexpr int8_t kThreeLevels[3] = {8, 25, 43};
constexpr int8_t kDigits[3] = {0, 1, 2};
constexpr int8_t kEightLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int8_t kOddLevels[8] = {1, 3, 5, 7, 9, 11, 13, 15};

const Grid<2048, 8, 3>& GridOfIq1() {
  static const Grid<2048, 8, 3> grid(kIq1SPoints, kDigits);
  return grid;
}
const Grid<256, 8, 3>& GridOfIq2Xxs() {
  static const Grid<256, 8, 3> grid(kIq2XxsPoints, kThreeLevels);
  return grid;
}
const Grid<512, 8, 3>& GridOfIq2Xs() {
  static const Grid<512, 8, 3> grid(kIq2XsPoints, kThreeLevels);
  return grid;
}
const Grid<1024, 8, 3>& GridOfIq2S() {
  static const Grid<1024, 8, 3> grid(kIq2SPoints, kThreeLevels);
  return grid;
}
const Grid<256, 4, 8>& GridOfIq3Xxs() {
  static const Grid<256, 4, 8> grid(kIq3XxsPoints, kEightLevels);
  return grid;
}
const Grid<512, 4, 8>& GridOfIq3S() {
  static const Grid<512, 4, 8> grid(kIq3SPoints, kOddLevels);
  return grid;
}

/// Bit i of `signs` makes weight i negative.
template <int width>
void Signed(const int8_t (&point)[width], unsigned signs, int8_t* q) {
  for (int i = 0; i < width; ++i) {
    q[i] = static_cast<int8_t>((signs >> i & 1) != 0 ? -point[i] : point[i]);
  }
}

/// Seven signs are stored; the eighth makes the number of negative weights even.
unsigned EightSigns(uint32_t seven) {
  seven &= 127;
  return seven | (static_cast<unsigned>(std::popcount(seven)) & 1U) << 7;
}

/// A scale is an odd number of steps: what a group stores, doubled, plus 1.
float Odd(int stored) { return static_cast<float>(2 * stored + 1); }

/// The low nibble of a byte belongs to the group before that of the high one.
int NibbleOf(const uint8_t* bytes, int group) { return bytes[group / 2] >> (4 * (group % 2)) & 15; }

/// Of each 32 weights: four numbers of points, then four times seven signs and a scale.
struct OORT_PACKED BlockIq2Xxs {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{.bits = 8, .group = 32, .span = kSpan};
  uint16_t d;
  uint8_t qs[64];

  float ScaleStep() const { return HalfBitsToFloat(d) / 8; }
  void Read(int8_t* q, float* scale, float*) const {
    const auto& grid = GridOfIq2Xxs();
    for (int g = 0; g < 8; ++g) {
      uint32_t signs;
      std::memcpy(&signs, qs + 8 * g + 4, sizeof(signs));
      scale[g] = ScaleStep() * Odd(static_cast<int>(signs >> 28));
      for (int i = 0; i < 4; ++i, q += 8) {
        Signed(grid.points[qs[8 * g + i]], EightSigns(signs >> (7 * i)), q);
      }
    }
  }
};

/// Nine bits are the number of a point, seven are signs.
struct OORT_PACKED BlockIq2Xs {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{.bits = 8, .group = 16, .span = kSpan};
  uint16_t d;
  uint16_t qs[32];
  uint8_t sc[8];

  float ScaleStep() const { return HalfBitsToFloat(d) / 8; }
  void Read(int8_t* q, float* scale, float*) const {
    const auto& grid = GridOfIq2Xs();
    for (int g = 0; g < 16; ++g) scale[g] = ScaleStep() * Odd(NibbleOf(sc, g));
    for (int i = 0; i < 32; ++i, q += 8)
      Signed(grid.points[qs[i] & 511], EightSigns(qs[i] >> 9), q);
  }
};

struct OORT_PACKED BlockIq2S {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{.bits = 8, .group = 16, .span = kSpan};
  uint16_t d;
  uint8_t qs[32], signs[32], qh[8], sc[8];

  float ScaleStep() const { return HalfBitsToFloat(d) / 8; }
  void Read(int8_t* q, float* scale, float*) const {
    const auto& grid = GridOfIq2S();
    for (int g = 0; g < 16; ++g) scale[g] = ScaleStep() * Odd(NibbleOf(sc, g));
    for (int i = 0; i < 32; ++i, q += 8) {
      const int high = qh[i / 4] >> (2 * (i % 4)) & 3;
      Signed(grid.points[qs[i] | high << 8], signs[i], q);
    }
  }
};

struct OORT_PACKED BlockIq3Xxs {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{.bits = 8, .group = 32, .span = kSpan};
  uint16_t d;
  uint8_t qs[64], sc[32];

  float ScaleStep() const { return HalfBitsToFloat(d) / 4; }
  void Read(int8_t* q, float* scale, float*) const {
    const auto& grid = GridOfIq3Xxs();
    for (int g = 0; g < 8; ++g) {
      uint32_t signs;
      std::memcpy(&signs, sc + 4 * g, sizeof(signs));
      scale[g] = ScaleStep() * Odd(static_cast<int>(signs >> 28));
      for (int i = 0; i < 8; ++i, q += 4) {
        const unsigned eight = EightSigns(signs >> (7 * (i / 2)));
        Signed(grid.points[qs[8 * g + i]], eight >> (4 * (i % 2)), q);
      }
    }
  }
};

/// Weights are odd numbers of -15 to 15, and so 16 even steps of 4 bits, moved by one.
struct OORT_PACKED BlockIq3S {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{
      .bits = 4, .group = 32, .has_minimum = true, .is_signed = false, .span = kSpan, .middle = 8};
  uint16_t d;
  uint8_t qs[64], qh[8], signs[32], sc[4];

  float ScaleStep() const { return HalfBitsToFloat(d) * 2; }
  float MinimumStep() const { return HalfBitsToFloat(d); }
  void Read(int8_t* q, float* scale, float* minimum) const {
    const auto& grid = GridOfIq3S();
    for (int g = 0; g < 8; ++g) {
      scale[g] = ScaleStep() * Odd(NibbleOf(sc, g));
      minimum[g] = scale[g] * -7.5F;
    }
    for (int i = 0; i < 64; ++i, q += 4) {
      const int high = qh[i / 8] >> (i % 8) & 1;
      int8_t odd[4];
      Signed(grid.points[qs[i] | high << 8], signs[i / 2] >> (4 * (i % 2)), odd);
      for (int j = 0; j < 4; ++j) q[j] = static_cast<int8_t>((odd[j] + 15) / 2);
    }
  }
};

/// Weights of -1, 0 and 1, which all 32 of a group move by an eighth, up or down.
struct OORT_PACKED BlockIq1S {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{
      .bits = 4, .group = 32, .has_minimum = true, .is_signed = false, .span = kSpan};
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];

  float ScaleStep() const { return HalfBitsToFloat(d); }
  float MinimumStep() const { return HalfBitsToFloat(d) / -8; }
  void Read(int8_t* q, float* scale, float* minimum) const {
    const auto& grid = GridOfIq1();
    for (int g = 0; g < 8; ++g) {
      scale[g] = ScaleStep() * Odd(qh[g] >> 12 & 7);
      minimum[g] = scale[g] * ((qh[g] & 0x8000) != 0 ? -1.125F : -0.875F);
      for (int i = 0; i < 4; ++i, q += 8) {
        const int high = qh[g] >> (3 * i) & 7;
        std::memcpy(q, grid.points[qs[4 * g + i] | high << 8], 8);
      }
    }
  }
};

/// The same, where each 8 weights move by themselves: eighths of -9 to 9.
struct OORT_PACKED BlockIq1M {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{.bits = 8, .used_bits = 6, .group = 16, .span = kSpan};
  uint8_t qs[32], qh[16];
  uint16_t sc[4];

  /// The step is the upper four bits of the four words.
  float ScaleStep() const {
    const int d = sc[0] >> 12 | (sc[1] >> 12) << 4 | (sc[2] >> 12) << 8 | (sc[3] >> 12) << 12;
    return HalfBitsToFloat(static_cast<uint16_t>(d)) / 8;
  }
  void Read(int8_t* q, float* scale, float*) const {
    const auto& grid = GridOfIq1();
    for (int g = 0; g < 16; ++g) scale[g] = ScaleStep() * Odd(sc[g / 4] >> (3 * (g % 4)) & 7);
    for (int i = 0; i < 32; ++i, q += 8) {
      const int high = NibbleOf(qh, i);
      const int moved = (high & 8) != 0 ? -9 : -7;
      const int8_t(&point)[8] = grid.points[qs[i] | (high & 7) << 8];
      for (int j = 0; j < 8; ++j) q[j] = static_cast<int8_t>(8 * point[j] + moved);
    }
  }
};

}  // namespace

const BlockFormat* GridFormatOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kIq1S: return FormatOf<BlockIq1S, 50>();
    case WeightFormat::kIq1M: return FormatOf<BlockIq1M, 56>();
    case WeightFormat::kIq2Xxs: return FormatOf<BlockIq2Xxs, 66>();
    case WeightFormat::kIq2Xs: return FormatOf<BlockIq2Xs, 74>();
    case WeightFormat::kIq2S: return FormatOf<BlockIq2S, 82>();
    case WeightFormat::kIq3Xxs: return FormatOf<BlockIq3Xxs, 98>();
    case WeightFormat::kIq3S: return FormatOf<BlockIq3S, 110>();
    default: return nullptr;
  }
}

}  // namespace oort
