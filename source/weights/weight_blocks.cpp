// SPDX-License-Identifier: MIT
#include "weights/weight_blocks.h"

#include <cstring>

#include "weights/block_reader.h"

namespace oort {
namespace {

// Products of a block's scale and a group's are exact in f32.

constexpr GroupLayout kInt4Groups32{
    .bits = 4, .group = 32, .has_minimum = false, .is_signed = true, .f16_scales = true};
constexpr GroupLayout kUint4Groups32{
    .bits = 4, .group = 32, .has_minimum = true, .is_signed = false, .f16_scales = true};
constexpr GroupLayout kInt8Groups32{.bits = 8, .group = 32, .f16_scales = true};

int8_t Low(uint8_t byte) { return static_cast<int8_t>(byte & 15); }
int8_t High(uint8_t byte) { return static_cast<int8_t>(byte >> 4); }

struct OORT_PACKED BlockQ4_0 {
  static constexpr int kElements = 32;
  static constexpr GroupLayout kLayout = kInt4Groups32;
  uint16_t d;
  uint8_t qs[16];

  void Read(int8_t* q, float* scale, float*) const {
    *scale = HalfBitsToFloat(d);
    for (int i = 0; i < 16; ++i) q[i] = static_cast<int8_t>(Low(qs[i]) - 8);
    for (int i = 0; i < 16; ++i) q[16 + i] = static_cast<int8_t>(High(qs[i]) - 8);
  }
};

struct OORT_PACKED BlockQ4_1 {
  static constexpr int kElements = 32;
  static constexpr GroupLayout kLayout = kUint4Groups32;
  uint16_t d, m;
  uint8_t qs[16];

  void Read(int8_t* q, float* scale, float* minimum) const {
    // In arrays of its own, so that the compiler sees that nothing overlaps.
    uint8_t codes[16];
    int8_t halves[32];
    std::memcpy(codes, qs, 16);
    for (int i = 0; i < 16; ++i) halves[i] = Low(codes[i]);
    for (int i = 0; i < 16; ++i) halves[16 + i] = High(codes[i]);
    std::memcpy(q, halves, 32);
    *scale = HalfBitsToFloat(d);
    *minimum = HalfBitsToFloat(m);
  }
};

/// The fifth bits of Q5_0 and Q5_1 stand together: bit i is that of element i.
void ReadFiveBits(const uint8_t* high_bits, const uint8_t* qs, int offset, int8_t* q) {
  uint32_t high;
  std::memcpy(&high, high_bits, sizeof(high));
  for (unsigned i = 0; i < 16; ++i) {
    const int low_bit = static_cast<int>(high >> i & 1) << 4;
    const int high_bit = static_cast<int>(high >> (i + 16) & 1) << 4;
    q[i] = static_cast<int8_t>((Low(qs[i]) | low_bit) - offset);
    q[16 + i] = static_cast<int8_t>((High(qs[i]) | high_bit) - offset);
  }
}

struct OORT_PACKED BlockQ5_0 {
  static constexpr int kElements = 32;
  static constexpr GroupLayout kLayout{.bits = 8, .used_bits = 5, .group = 32, .f16_scales = true};
  uint16_t d;
  uint8_t qh[4], qs[16];

  void Read(int8_t* q, float* scale, float*) const {
    *scale = HalfBitsToFloat(d);
    ReadFiveBits(qh, qs, 16, q);
  }
};

struct OORT_PACKED BlockQ5_1 {
  static constexpr int kElements = 32;
  static constexpr GroupLayout kLayout{
      .bits = 8, .used_bits = 5, .group = 32, .has_minimum = true, .f16_scales = true};
  uint16_t d, m;
  uint8_t qh[4], qs[16];

  void Read(int8_t* q, float* scale, float* minimum) const {
    *scale = HalfBitsToFloat(d);
    *minimum = HalfBitsToFloat(m);
    ReadFiveBits(qh, qs, 0, q);
  }
};

struct OORT_PACKED BlockQ8_0 {
  static constexpr int kElements = 32;
  static constexpr GroupLayout kLayout = kInt8Groups32;
  uint16_t d;
  int8_t qs[32];

  void Read(int8_t* q, float* scale, float*) const {
    *scale = HalfBitsToFloat(d);
    std::memcpy(q, qs, 32);
  }
};

/// Two bits of Q2_K and Q3_K: four elements a byte, 32 apart.
void ReadTwoBits(const uint8_t* qs, int8_t* q) {
  for (int half = 0; half < 2; ++half) {
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < 32; ++i) {
        q[128 * half + 32 * j + i] = static_cast<int8_t>(qs[32 * half + i] >> (2 * j) & 3);
      }
    }
  }
}

struct OORT_PACKED BlockQ2K {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{
      .bits = 4, .group = 16, .has_minimum = true, .is_signed = false, .span = kSpan};
  uint8_t sc[16], qs[64];
  uint16_t d, dmin;

  void Read(int8_t* q, float* scale, float* minimum) const {
    const float step = HalfBitsToFloat(d), minimum_step = HalfBitsToFloat(dmin);
    for (int g = 0; g < 16; ++g) {
      scale[g] = step * static_cast<float>(Low(sc[g]));
      minimum[g] = -(minimum_step * static_cast<float>(High(sc[g])));
    }
    ReadTwoBits(qs, q);
  }
};

struct OORT_PACKED BlockQ3K {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{.bits = 4, .group = 16, .span = kSpan};
  uint8_t hm[32], qs[64], sc[12];
  uint16_t d;

  int Scale(int g) const {
    return ((sc[g % 8] >> (4 * (g / 8)) & 15) | (sc[8 + g % 4] >> (2 * (g / 4)) & 3) << 4) - 32;
  }
  void Read(int8_t* q, float* scale, float*) const {
    const float step = HalfBitsToFloat(d);
    for (int g = 0; g < 16; ++g) scale[g] = step * static_cast<float>(Scale(g));
    ReadTwoBits(qs, q);
    for (int j = 0; j < 8; ++j) {
      for (int i = 0; i < 32; ++i) {
        const int below = 4 - ((hm[i] >> j & 1) << 2);  // 4 where the bit is 0
        q[32 * j + i] = static_cast<int8_t>(q[32 * j + i] - below);
      }
    }
  }
};

/// The eight scales and minimums, of six bits each, in the 12 bytes of Q4_K and Q5_K.
void ReadSixBitScales(const uint8_t* s, uint16_t d, uint16_t dmin, float* scale, float* minimum) {
  const float step = HalfBitsToFloat(d), minimum_step = HalfBitsToFloat(dmin);
  for (int g = 0; g < 4; ++g) {
    scale[g] = step * static_cast<float>(s[g] & 63);
    minimum[g] = -(minimum_step * static_cast<float>(s[g + 4] & 63));
  }
  for (int g = 4; g < 8; ++g) {
    scale[g] = step * static_cast<float>((s[g + 4] & 15) | (s[g - 4] >> 6) << 4);
    minimum[g] = -(minimum_step * static_cast<float>((s[g + 4] >> 4) | (s[g] >> 6) << 4));
  }
}

struct OORT_PACKED BlockQ4K {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{
      .bits = 4, .group = 32, .has_minimum = true, .is_signed = false, .span = kSpan};
  uint16_t d, dmin;
  uint8_t sc[12], qs[128];

  void Read(int8_t* q, float* scale, float* minimum) const {
    ReadSixBitScales(sc, d, dmin, scale, minimum);
    for (int pair = 0; pair < 4; ++pair) {
      const uint8_t* from = qs + 32 * pair;
      int8_t* to = q + 64 * pair;
      for (int i = 0; i < 32; ++i) to[i] = Low(from[i]);
      for (int i = 0; i < 32; ++i) to[32 + i] = High(from[i]);
    }
  }
};

struct OORT_PACKED BlockQ5K {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{
      .bits = 8, .used_bits = 5, .group = 32, .has_minimum = true, .span = kSpan};
  uint16_t d, dmin;
  uint8_t sc[12], qh[32], qs[128];

  void Read(int8_t* q, float* scale, float* minimum) const {
    ReadSixBitScales(sc, d, dmin, scale, minimum);
    for (int pair = 0; pair < 4; ++pair) {
      const uint8_t* from = qs + 32 * pair;
      int8_t* to = q + 64 * pair;
      for (int i = 0; i < 32; ++i) {
        const int high = qh[i] >> (2 * pair);
        to[i] = static_cast<int8_t>(Low(from[i]) | (high & 1) << 4);
        to[32 + i] = static_cast<int8_t>(High(from[i]) | (high >> 1 & 1) << 4);
      }
    }
  }
};

struct OORT_PACKED BlockQ6K {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{.bits = 8, .used_bits = 6, .group = 16, .span = kSpan};
  uint8_t ql[128], qh[64];
  int8_t sc[16];
  uint16_t d;

  void Read(int8_t* q, float* scale, float*) const {
    const float step = HalfBitsToFloat(d);
    for (int g = 0; g < 16; ++g) scale[g] = step * static_cast<float>(sc[g]);
    for (int half = 0; half < 2; ++half) {
      const uint8_t* low = ql + 64 * half;
      const uint8_t* high = qh + 32 * half;
      int8_t* to = q + 128 * half;
      for (int i = 0; i < 32; ++i) to[i] = Six(Low(low[i]), high[i]);
      for (int i = 0; i < 32; ++i) to[32 + i] = Six(Low(low[32 + i]), high[i] >> 2);
      for (int i = 0; i < 32; ++i) to[64 + i] = Six(High(low[i]), high[i] >> 4);
      for (int i = 0; i < 32; ++i) to[96 + i] = Six(High(low[32 + i]), high[i] >> 6);
    }
  }
  static int8_t Six(int low, int high) { return static_cast<int8_t>((low | (high & 3) << 4) - 32); }
};

constexpr int8_t kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
/// Of MXFP4, doubled.
constexpr int8_t kE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void LookUp(const int8_t* table, const uint8_t* qs, int8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = table[qs[i] & 15];
    q[16 + i] = table[qs[i] >> 4];
  }
}

struct OORT_PACKED BlockIq4Nl {
  static constexpr int kElements = 32;
  static constexpr GroupLayout kLayout = kInt8Groups32;
  uint16_t d;
  uint8_t qs[16];

  void Read(int8_t* q, float* scale, float*) const {
    *scale = HalfBitsToFloat(d);
    LookUp(kUneven, qs, q);
  }
};

struct OORT_PACKED BlockIq4Xs {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout{.bits = 8, .group = 32, .span = kSpan};
  uint16_t d, sh;
  uint8_t sl[4], qs[128];

  void Read(int8_t* q, float* scale, float*) const {
    const float step = HalfBitsToFloat(d);
    for (int g = 0; g < 8; ++g) {
      const int s = ((sl[g / 2] >> (4 * (g % 2)) & 15) | (sh >> (2 * g) & 3) << 4) - 32;
      scale[g] = step * static_cast<float>(s);
      LookUp(kUneven, qs + 16 * g, q + 32 * g);
    }
  }
};

struct OORT_PACKED BlockMxfp4 {
  static constexpr int kElements = 32;
  static constexpr GroupLayout kLayout{.bits = 8, .group = 32};
  uint8_t e, qs[16];

  void Read(int8_t* q, float* scale, float*) const {
    // 2^(e - 128), where the two smallest are subnormal.
    *scale = std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1U) << 23);
    LookUp(kE2m1, qs, q);
  }
};

/// Numbers of -1, 0 and 1 that share one scale.
constexpr GroupLayout kThrees{.bits = 4, .group = 256, .f16_scales = true};

/// Five of them in a byte, as a fraction of 256 in base 3: times 3 a digit comes out at the top.
struct OORT_PACKED BlockTq1_0 {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout = kThrees;
  uint8_t qs[48], qh[4];
  uint16_t d;

  /// The first digits of all bytes come first, then the second ones.
  static int8_t* ReadDigits(const uint8_t* bytes, int count, int digits, int8_t* q) {
    uint8_t power = 1;
    for (int digit = 0; digit < digits; ++digit) {
      for (int i = 0; i < count; ++i) {
        const auto left = static_cast<uint8_t>(bytes[i] * power);
        *q++ = static_cast<int8_t>((left * 3 >> 8) - 1);
      }
      power = static_cast<uint8_t>(power * 3);
    }
    return q;
  }
  void Read(int8_t* q, float* scale, float*) const {
    *scale = HalfBitsToFloat(d);
    q = ReadDigits(qs, 32, 5, q);
    q = ReadDigits(qs + 32, 16, 5, q);
    ReadDigits(qh, 4, 4, q);
  }
};

struct OORT_PACKED BlockTq2_0 {
  static constexpr int kElements = 256;
  static constexpr GroupLayout kLayout = kThrees;
  uint8_t qs[64];
  uint16_t d;

  void Read(int8_t* q, float* scale, float*) const {
    *scale = HalfBitsToFloat(d);
    ReadTwoBits(qs, q);
    for (int i = 0; i < kElements; ++i) q[i] = static_cast<int8_t>(q[i] - 1);
  }
};

}  // namespace

const BlockFormat* BlockFormatOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBf16:
    case WeightFormat::kInt8:
    case WeightFormat::kUint8:
    case WeightFormat::kInt4:
    case WeightFormat::kUint4: return nullptr;
    case WeightFormat::kQ4_0: return FormatOf<BlockQ4_0, 18>();
    case WeightFormat::kQ4_1: return FormatOf<BlockQ4_1, 20>();
    case WeightFormat::kQ5_0: return FormatOf<BlockQ5_0, 22>();
    case WeightFormat::kQ5_1: return FormatOf<BlockQ5_1, 24>();
    case WeightFormat::kQ8_0: return FormatOf<BlockQ8_0, 34>();
    case WeightFormat::kQ2K: return FormatOf<BlockQ2K, 84>();
    case WeightFormat::kQ3K: return FormatOf<BlockQ3K, 110>();
    case WeightFormat::kQ4K: return FormatOf<BlockQ4K, 144>();
    case WeightFormat::kQ5K: return FormatOf<BlockQ5K, 176>();
    case WeightFormat::kQ6K: return FormatOf<BlockQ6K, 210>();
    case WeightFormat::kIq4Nl: return FormatOf<BlockIq4Nl, 18>();
    case WeightFormat::kIq4Xs: return FormatOf<BlockIq4Xs, 136>();
    case WeightFormat::kMxfp4: return FormatOf<BlockMxfp4, 17>();
    case WeightFormat::kTq1_0: return FormatOf<BlockTq1_0, 54>();
    case WeightFormat::kTq2_0: return FormatOf<BlockTq2_0, 66>();
    default: return GridFormatOf(format);
  }
}

}  // namespace oort
