// SPDX-License-Identifier: MIT
// The numbers of the zip format, for reader and writer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace oort::pnnx {

static_assert(std::endian::native == std::endian::little, "weights are little-endian in the file");

inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kCentralSignature = 0x02014b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kLocator64Signature = 0x07064b50;

inline constexpr size_t kLocalSize = 30;
inline constexpr size_t kCentralSize = 46;
inline constexpr size_t kEndSize = 22;
inline constexpr size_t kEnd64Size = 56;
inline constexpr size_t kLocator64Size = 20;

/// These stand where the true number is in the ZIP64 record.
inline constexpr uint16_t kSaturated16 = 0xffff;
inline constexpr uint32_t kSaturated32 = 0xffffffff;

inline constexpr uint16_t kExtraZip64 = 1;
inline constexpr uint16_t kFlagsEncrypted = 0x0001 | 0x0040 | 0x2000;
inline constexpr uint16_t kFlagDescriptor = 0x0008;

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace oort::pnnx
