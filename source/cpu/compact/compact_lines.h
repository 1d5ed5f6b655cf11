// SPDX-License-Identifier: MIT
// Panels of compact weights over the vector type. Only for *.simd.cpp.
#pragma once

#include <cstring>

#include "cpu/compact/compact_kernels.h"
#include "cpu/compact/group_numbers.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {

inline constexpr int kVectors = kCompactRows / Vec::kWidth;

/// 16 lanes: one for each row of a panel.
struct Lanes {
  Vec v[kVectors];
  [[gnu::always_inline]] static Lanes Broadcast(float value) {
    Lanes lanes;
    Unroll<kVectors>([&](auto i) { lanes.v[i] = Vec(value); });
    return lanes;
  }
  [[gnu::always_inline]] static Lanes Load(const float* p) {
    Lanes lanes;
    Unroll<kVectors>([&](auto i) { lanes.v[i] = Vec::Load(p + i * Vec::kWidth); });
    return lanes;
  }
  [[gnu::always_inline]] void Store(float* p) const {
    Unroll<kVectors>([&](auto i) { v[i].Store(p + i * Vec::kWidth); });
  }
};

/// The numbers of one group of a panel.
struct GroupLanes {
  Lanes scale, minimum;
  [[gnu::always_inline]] GroupLanes(const CompactLayout& layout, const std::byte* panel,
                                    const std::byte* group) {
    Unroll<kVectors>([&](auto i) {
      const GroupNumbers numbers(layout, panel, group, i * Vec::kWidth);
      scale.v[i] = numbers.scale;
      minimum.v[i] = numbers.minimum;
    });
  }
};

/// 64 bytes as 16 integers of four bytes.
struct Line {
  IntVec v[kVectors];
  explicit Line(const std::byte* p) {
    Unroll<kVectors>([&](auto i) {
      float bits[Vec::kWidth];
      std::memcpy(bits, p + i * Vec::kWidth * 4, sizeof(bits));
      v[i] = Bits(Vec::Load(bits));
    });
  }
};

/// A shift that may be none.
template <int bits>
inline IntVec Right(IntVec value) {
  if constexpr (bits == 0) {
    return value;
  } else {
    return ShiftRight<bits>(value);
  }
}

/// Calls step(k, lanes of q) for the steps of one line.
template <typename Step>
[[gnu::always_inline]] inline void ForNibbles(const Line& line, Step step) {
  Unroll<4>([&](auto j) {
    constexpr int kShift = 8 * j;
    Lanes low, high;
    Unroll<kVectors>([&](auto i) {
      low.v[i] = ToFloat(Right<kShift>(line.v[i]) & IntVec(15));
      high.v[i] = ToFloat(Right<kShift + 4>(line.v[i]) & IntVec(15));
    });
    step(j, low);
    step(j + 4, high);
  });
}

template <typename Step>
[[gnu::always_inline]] inline void ForBytes(const Line& line, Step step) {
  Unroll<4>([&](auto j) {
    constexpr int kShift = 24 - 8 * j;
    Lanes lanes;
    Unroll<kVectors>(
        [&](auto i) { lanes.v[i] = ToFloat(ShiftRightSigned<24>(ShiftLeft<kShift>(line.v[i]))); });
    step(j, lanes);
  });
}

/// Calls step(k, lanes of q) for all steps of one group of quantized weights.
template <CompactType type, typename Step>
[[gnu::always_inline]] inline void ForGroup(const std::byte* lines, int group, Step step) {
  constexpr int kSteps = type == CompactType::kInt4 ? 8 : 4;
  for (int k = 0; k < group; k += kSteps, lines += 64) {
    const Line line(lines);
    const auto at = [&](int j, const Lanes& q) { step(k + j, q); };
    if constexpr (type == CompactType::kInt4) {
      ForNibbles(line, at);
    } else {
      ForBytes(line, at);
    }
  }
}

/// Elements (k, 16) of a floating-point panel.
template <CompactType type>
[[gnu::always_inline]] inline Lanes LoadStep(const std::byte* p) {
  Lanes lanes;
  Unroll<kVectors>([&](auto i) {
    if constexpr (type == CompactType::kBf16) {
      lanes.v[i] = LoadBf16At(p, i * Vec::kWidth);
    } else if constexpr (type == CompactType::kF16) {
      lanes.v[i] = LoadHalf(p, i * Vec::kWidth);
    } else {
      lanes.v[i] = LoadFloat(p, i * Vec::kWidth);
    }
  });
  return lanes;
}

}  // namespace oort::OORT_ISA
