// SPDX-License-Identifier: MIT
// Lines of weights of 5 and 6 bits as bytes, as those of 8 bits are. Only for *.simd.cpp,
// *.dot.cpp,
// *.bf16.cpp, *.f16.cpp and *.mmla.cpp.
//
// A group of 5 bits, 32 steps, is five lines a to e of four steps each, in the lower five bits. The
// upper three hold the last 12 steps: a and the upper two of b four of them, c and those of d the
// next, e and what is left of b and d the last. A group of 6 bits, 16 steps, is three lines of four
// steps in the lower six bits, the upper two of which are together the other four. Two instructions
// of NEON, which shift and insert, take a step out that way, where planes of bits would take more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

/// The steps of one group of a panel, 64 bytes for four steps, 0 to 31 or 63.
template <WeightType type>
class JoinedLines {
 public:
  static constexpr int kGroup = type == WeightType::kInt5 ? 32 : 16;
  static constexpr int kBytes = kGroup * kPanelRows;  ///< as which they are put together

  JoinedLines() = default;
  [[gnu::always_inline]] explicit JoinedLines(const std::byte* from) { Read(from); }
  /// In plain loops over 64 bytes, of which compilers make vectors.
  [[gnu::always_inline]] void Read(const std::byte* from) {
    constexpr int kLines = type == WeightType::kInt5 ? 5 : 3;
    constexpr uint8_t kMask = type == WeightType::kInt5 ? 31 : 63;
    const uint8_t* __restrict lines = reinterpret_cast<const uint8_t*>(from);
    uint8_t* __restrict to = bytes_;
    for (int i = 0; i < 64 * kLines; ++i) to[i] = lines[i] & kMask;
    to += 64 * kLines;
    if constexpr (type == WeightType::kInt5) {
      Join(lines, to, [](const uint8_t* w) { return (w[0] >> 5 << 2) | w[64] >> 6; });
      Join(lines + 128, to + 64, [](const uint8_t* w) { return (w[0] >> 5 << 2) | w[64] >> 6; });
      Join(lines, to + 128, [](const uint8_t* w) {
        return (w[256] >> 5 << 2) | (w[64] >> 4 & 2) | (w[192] >> 5 & 1);
      });
    } else {
      Join(lines, to,
           [](const uint8_t* w) { return (w[0] >> 6 << 4) | (w[64] >> 6 << 2) | w[128] >> 6; });
    }
  }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(bytes_); }

 private:
  template <typename Bits>
  [[gnu::always_inline]] static void Join(const uint8_t* __restrict lines, uint8_t* __restrict to,
                                          Bits bits) {
    for (int i = 0; i < 64; ++i) to[i] = static_cast<uint8_t>(bits(lines + i));
  }

  alignas(64) uint8_t bytes_[kBytes];
};

/// Lines that are read as they are.
class PlainLines {
 public:
  PlainLines() = default;
  [[gnu::always_inline]] explicit PlainLines(const std::byte* from) : from_(from) {}
  [[gnu::always_inline]] void Read(const std::byte* from) { from_ = from; }
  [[gnu::always_inline]] const std::byte* data() const { return from_; }

 private:
  const std::byte* from_ = nullptr;
};

inline constexpr bool IsJoined(WeightType type) {
  return type == WeightType::kInt5 || type == WeightType::kInt6;
}
/// The lines of a group, bytes of all types but that of 4 bits.
template <WeightType type>
using GroupLines = std::conditional_t<IsJoined(type), JoinedLines<type>, PlainLines>;

}  // namespace oort::OORT_ISA
