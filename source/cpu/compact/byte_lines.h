// SPDX-License-Identifier: MIT
// Lines of weights of 5 and 6 bits put together to bytes, as those of 8 bits are. Only for
// *.simd.cpp, *.dot.cpp, *.bf16.cpp, *.f16.cpp and *.mmla.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/compact/compact_kernels.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {

template <int places>
inline uint8_t MoveLeft(uint8_t bits) {
  if constexpr (places >= 0) {
    return static_cast<uint8_t>(bits << places);
  } else {
    return static_cast<uint8_t>(bits >> -places);
  }
}

/// The steps of one group of a panel, 64 bytes for four steps, 0 to 31 or 63.
template <CompactType type>
class JoinedLines {
 public:
  static constexpr int kGroup = type == CompactType::kInt5 ? 32 : 16;
  static constexpr int kBytes = kGroup * kCompactRows;  ///< as which they are put together

  JoinedLines() = default;
  [[gnu::always_inline]] explicit JoinedLines(const std::byte* from) { Read(from); }
  [[gnu::always_inline]] void Read(const std::byte* from) {
    constexpr int kUpper = type == CompactType::kInt5 ? 1 : 2;  // bits in the last line
    constexpr int kLines = kGroup / 8;
    constexpr uint8_t kMask = ((1 << kUpper) - 1) << 4;
    const uint8_t* __restrict lines = reinterpret_cast<const uint8_t*>(from);
    const uint8_t* __restrict upper = lines + 64 * kLines;
    uint8_t* __restrict to = bytes_;
    Unroll<kLines>([&](auto line) __attribute__((always_inline)) {
      constexpr int kLow = 4 - 2 * kUpper * line, kHigh = kLow - kUpper;
      const uint8_t* __restrict both = lines + 64 * line;
      uint8_t* __restrict low = to + 128 * line;
      uint8_t* __restrict high = low + 64;
      for (int i = 0; i < 64; ++i) {
        low[i] = static_cast<uint8_t>((both[i] & 15) | (MoveLeft<kLow>(upper[i]) & kMask));
      }
      for (int i = 0; i < 64; ++i) {
        high[i] = static_cast<uint8_t>((both[i] >> 4) | (MoveLeft<kHigh>(upper[i]) & kMask));
      }
    });
  }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(bytes_); }

 private:
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

inline constexpr bool IsJoined(CompactType type) {
  return type == CompactType::kInt5 || type == CompactType::kInt6;
}
/// The lines of a group, bytes of all types but that of 4 bits.
template <CompactType type>
using GroupLines = std::conditional_t<IsJoined(type), JoinedLines<type>, PlainLines>;

}  // namespace oort::OORT_ISA
