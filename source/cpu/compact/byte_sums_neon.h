// SPDX-License-Identifier: MIT
// Sums of byte products by SDOT, four rows of weights in a register. Only for compact.dot.cpp.
#pragma once

#include <arm_neon.h>

#include "cpu/compact/compact_kernels.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {

inline constexpr int kMostRows = 2;
inline constexpr int kOffset8 = 0;

struct ByteSums {
  int32x4_t v[4];
  void Start(int32_t value) {
    Unroll<4>([&](auto i) { v[i] = vdupq_n_s32(value); });
  }
  void AddToFloat(float scale, Vec* out) const {
    Unroll<4>([&](auto i) { out[i] = Vec(vfmaq_n_f32(out[i].v, vcvtq_f32_s32(v[i]), scale)); });
  }
};

template <int piece>
struct Bytes {
  int8x16_t v[piece / 16];
  void Load(const int8_t* p) {
    Unroll<piece / 16>([&](auto i) { v[i] = vld1q_s8(p + 16 * i); });
  }
};

template <CompactType type, int piece, int rows>
inline void AddPiece(const std::byte* lines, const Bytes<piece> (&bytes)[rows],
                     ByteSums (&sums)[rows]) {
  const uint8_t* from = reinterpret_cast<const uint8_t*>(lines);
  constexpr int kLines = type == CompactType::kInt4 ? piece / 8 : piece / 4;
  Unroll<kLines>([&](auto line) {
    Unroll<4>([&](auto i) {
      const uint8x16_t w = vld1q_u8(from + 64 * line + 16 * i);
      if constexpr (type == CompactType::kInt4) {
        constexpr int kFour = 2 * line;  // of the fours of bytes
        const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15)));
        const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(w, 4));
        Unroll<rows>([&](auto r) {
          sums[r].v[i] = vdotq_laneq_s32(sums[r].v[i], low, bytes[r].v[kFour / 4], kFour % 4);
          sums[r].v[i] = vdotq_laneq_s32(sums[r].v[i], high, bytes[r].v[kFour / 4], kFour % 4 + 1);
        });
      } else {
        Unroll<rows>([&](auto r) {
          sums[r].v[i] =
              vdotq_laneq_s32(sums[r].v[i], vreinterpretq_s8_u8(w), bytes[r].v[line / 4], line % 4);
        });
      }
    });
  });
}

}  // namespace oort::OORT_ISA
