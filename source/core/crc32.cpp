// SPDX-License-Identifier: MIT
#include "core/crc32.h"

#include <array>

namespace oort {
namespace {

constexpr size_t kStride = 16;
using Tables = std::array<std::array<uint32_t, 256>, kStride>;

/// Table k holds the effect of a byte that k more bytes follow, so that sixteen bytes need
/// sixteen independent look-ups instead of a chain.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    tables[0][i] = crc;
  }
  for (size_t k = 1; k < kStride; ++k) {
    for (size_t i = 0; i < 256; ++i) {
      const uint32_t before = tables[k - 1][i];
      tables[k][i] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

uint32_t Crc32(std::span<const std::byte> bytes, uint32_t crc) {
  crc = ~crc;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  for (; left >= kStride; left -= kStride, data += kStride) {
    uint32_t next = 0;
    for (size_t k = 0; k < kStride; ++k) {
      const uint32_t byte = k < 4 ? data[k] ^ ((crc >> (8 * k)) & 0xff) : data[k];
      next ^= kTables[kStride - 1 - k][byte];
    }
    crc = next;
  }
  for (; left > 0; --left) crc = (crc >> 8) ^ kTables[0][(crc ^ *data++) & 0xff];
  return ~crc;
}

}  // namespace oort
