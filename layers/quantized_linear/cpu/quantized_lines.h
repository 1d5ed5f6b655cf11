// SPDX-License-Identifier: MIT
// Panels of quantized weights over the vector type. Only for *.simd.cpp.
#pragma once

#include <cstring>

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/byte_lines.h"
#include "layers/quantized_linear/cpu/group_numbers.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

inline constexpr int kVectors = kPanelRows / Vec::kWidth;

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

/// The numbers of a group.
struct GroupLanes {
  Lanes scale, minimum;
  [[gnu::always_inline]] GroupLanes(const PanelLayout& layout, const GroupPlace& group) {
    Unroll<kVectors>([&](auto i) {
      const GroupNumbers numbers(layout, group, i * Vec::kWidth);
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

/// Calls step(k, lanes of q) for the steps of one line, in their order.
template <typename Step>
[[gnu::always_inline]] inline void ForNibbles(const Line& line, Step step) {
  Unroll<8>([&](auto j) {
    constexpr int kShift = 8 * (j % 4) + 4 * (j / 4);
    Lanes lanes;
    Unroll<kVectors>([&](auto i) { lanes.v[i] = ToFloat(Right<kShift>(line.v[i]) & IntVec(15)); });
    step(j, lanes);
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

/// Calls step(k, lanes of q) for steps [begin, end) of one group of quantized weights, both
/// multiples of 8.
template <WeightType type, typename Step>
[[gnu::always_inline]] inline void ForSteps(const std::byte* from, int64_t begin, int64_t end,
                                            Step step) {
  constexpr int kSteps = type == WeightType::kInt4 ? 8 : 4;
  const GroupLines<type> lines(from);
  const std::byte* at = lines.data() + begin / kSteps * 64;
  for (int64_t k = begin; k < end; k += kSteps, at += 64) {
    const Line line(at);
    const auto each = [&](int j, const Lanes& q) { step(k + j, q); };
    if constexpr (type == WeightType::kInt4) {
      ForNibbles(line, each);
    } else {
      ForBytes(line, each);
    }
  }
}

/// Calls body(index, begin, end) for steps [begin, end) of each group that steps [k0, k1) touch.
template <typename Body>
[[gnu::always_inline]] inline void ForGroups(const PanelLayout& layout, int64_t k0, int64_t k1,
                                             Body body) {
  for (int64_t k = k0, next = 0; k < k1; k = next) {
    const int64_t index = k / layout.group, first = index * layout.group;
    next = first + layout.group < k1 ? first + layout.group : k1;
    body(index, k - first, next - first);
  }
}

/// Elements (k, 16) of a floating-point panel.
template <WeightType type>
[[gnu::always_inline]] inline Lanes LoadStep(const std::byte* p) {
  Lanes lanes;
  Unroll<kVectors>([&](auto i) {
    if constexpr (type == WeightType::kBf16) {
      lanes.v[i] = LoadBf16At(p, i * Vec::kWidth);
    } else if constexpr (type == WeightType::kF16) {
      lanes.v[i] = LoadHalf(p, i * Vec::kWidth);
    } else {
      lanes.v[i] = LoadFloat(p, i * Vec::kWidth);
    }
  });
  return lanes;
}

}  // namespace oort::OORT_ISA
