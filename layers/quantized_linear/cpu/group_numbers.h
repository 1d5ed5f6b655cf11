// SPDX-License-Identifier: MIT
// Scales and minimums of the groups of panels. Only for *.simd.cpp, *.dot.cpp and *.bf16.cpp.
#pragma once

#include "layers/quantized_linear/cpu/quantized_kernels.h"
#include "layers/quantized_linear/cpu/quantized_scales.h"

namespace oort::OORT_ISA {

/// Scales and minimums of the groups of a span, of Vec::kWidth rows from row `first` on.
template <ScaleType type>
struct RowScales {
  static constexpr int kBytes = type == ScaleType::kF32 ? 4 : type == ScaleType::kF16 ? 2 : 1;
  static constexpr bool kCounts = kBytes == 1;

  RowScales() = default;
  RowScales(const std::byte* steps, int first_row) : first(first_row) {
    const auto step = [&](int which) { return LoadHalf(steps + which * 2 * kPanelRows, first); };
    if constexpr (kCounts) scale_step = step(0) * Vec(1.0f / 256);
    if constexpr (type == ScaleType::kByte) {
      minimum_step = step(1) * Vec(1.0f / 256);
      minimum_start = step(2);
    }
  }
  [[gnu::always_inline]] Vec Scale(const std::byte* group) const {
    if constexpr (type == ScaleType::kF32) return LoadFloat(group, first);
    if constexpr (type == ScaleType::kF16) return LoadHalf(group, first);
    if constexpr (type == ScaleType::kByte) return LoadByte(group, first) * scale_step;
    if constexpr (type == ScaleType::kSignedByte) return LoadSignedByte(group, first) * scale_step;
  }
  [[gnu::always_inline]] Vec Minimum(const std::byte* group) const {
    const std::byte* from = group + kBytes * kPanelRows;
    if constexpr (type == ScaleType::kF32) return LoadFloat(from, first);
    if constexpr (type == ScaleType::kF16) return LoadHalf(from, first);
    if constexpr (type == ScaleType::kByte) {
      return Fma(LoadByte(from, first), minimum_step, minimum_start);
    }
    return Vec(0.0f);
  }

  int first = 0;
  Vec scale_step, minimum_step, minimum_start;  ///< of bytes only
};

/// Calls body(tag) with the type as tag.kType.
template <ScaleType type>
struct ScaleTag {
  static constexpr ScaleType kType = type;
};
template <typename Body>
[[gnu::always_inline]] inline auto WithScales(ScaleType type, Body body) {
  switch (type) {
    case ScaleType::kF32: return body(ScaleTag<ScaleType::kF32>{});
    case ScaleType::kF16: return body(ScaleTag<ScaleType::kF16>{});
    case ScaleType::kByte: return body(ScaleTag<ScaleType::kByte>{});
    case ScaleType::kSignedByte: break;
  }
  return body(ScaleTag<ScaleType::kSignedByte>{});
}

/// Where group `index` of a panel is.
struct GroupPlace {
  const std::byte *steps, *head, *lines;
  GroupPlace(const PanelLayout& layout, const std::byte* panel, int64_t index)
      : steps(panel + layout.steps_at(index)),
        head(panel + layout.group_at(index)),
        lines(head + layout.head_bytes()) {}
};

/// The numbers of a group, for Vec::kWidth rows: minimums are 0 where there are none.
struct GroupNumbers {
  Vec scale, minimum;
  GroupNumbers(const PanelLayout& layout, const GroupPlace& group, int first) {
    WithScales(layout.scales, [&](auto tag) {
      const RowScales<decltype(tag)::kType> rows(group.steps, first);
      scale = rows.Scale(group.head);
      minimum = layout.has_minimum ? rows.Minimum(group.head) : Vec(0.0f);
    });
  }
};

}  // namespace oort::OORT_ISA
