// SPDX-License-Identifier: MIT
// Unpacks lines of weights of 5 and 6 bits to bytes, in the order of 8-bit weights. Only for
// *.simd.cpp, *.dot.cpp, *.bf16.cpp, *.f16.cpp and *.mmla.cpp.
//
// A group of 5 bits has 32 steps in five lines, a to e. The lower five bits of their bytes hold
// four steps each, which makes 20. The upper three bits hold the last 12 steps: those of a with the
// top two of b make four steps, those of c with the top two of d the next four, those of e with the
// bits that b and d have left the last four. A group of 6 bits has 16 steps in three lines: the
// lower six bits hold four steps each, and the upper two bits of all three together hold the other
// four. In this order two shift-and-insert instructions of NEON (SRI) extract a step, where bit
// planes would take more.
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
  /// These are plain loops over 64 bytes, because compilers vectorize them. Bits are masked rather
  /// than shifted twice, because x86-64 has no shifts of bytes.
  [[gnu::always_inline]] void Read(const std::byte* from) {
    constexpr int kLines = type == WeightType::kInt5 ? 5 : 3;
    constexpr uint8_t kMask = type == WeightType::kInt5 ? 31 : 63;
    const uint8_t* __restrict lines = reinterpret_cast<const uint8_t*>(from);
    uint8_t* __restrict to = bytes_;
    for (int i = 0; i < 64 * kLines; ++i) to[i] = lines[i] & kMask;
    to += 64 * kLines;
    if constexpr (type == WeightType::kInt5) {
      const auto join = [](const uint8_t* w) { return (w[0] >> 3 & 0x1c) | w[64] >> 6; };
      Join(lines, to, join);
      Join(lines + 128, to + 64, join);
      Join(lines, to + 128, [](const uint8_t* w) {
        return (w[256] >> 3 & 0x1c) | (w[64] >> 4 & 2) | (w[192] >> 5 & 1);
      });
    } else {
      Join(lines, to,
           [](const uint8_t* w) { return (w[0] >> 2 & 0x30) | (w[64] >> 4 & 0x0c) | w[128] >> 6; });
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
