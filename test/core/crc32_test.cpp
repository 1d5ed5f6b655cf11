// SPDX-License-Identifier: MIT
#include "core/crc32.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace oort {
namespace {

/// One bit after the other, as the standard defines it.
uint32_t BitByBit(std::span<const std::byte> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

std::vector<std::byte> Noise(size_t size) {
  std::vector<std::byte> bytes(size);
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

TEST(Crc32, KnownAnswers) {
  for (const Crc32Function function : Crc32Functions()) {
    EXPECT_EQ(function({}, 0), 0u);
    EXPECT_EQ(function(std::as_bytes(std::span(std::string_view("123456789"))), 0), 0xcbf43926u);
  }
}

TEST(Crc32, EveryWayAgreesAtEveryLengthAndAlignment) {
  const std::vector<std::byte> bytes = Noise(150000);
  const std::span<const std::byte> all(bytes);
  for (const Crc32Function function : Crc32Functions()) {
    for (size_t size = 0; size < 300; ++size) {
      const auto part = all.subspan(size % 17, size);
      ASSERT_EQ(function(part, 0), BitByBit(part)) << size;
    }
    for (size_t size : {4095u, 49151u, 49152u, 49153u, 99999u, 149980u}) {
      const auto part = all.subspan(3, size);
      ASSERT_EQ(function(part, 0), BitByBit(part)) << size;
    }
  }
}

TEST(Crc32, PiecesChainAndCombine) {
  const std::vector<std::byte> bytes = Noise(70000);
  const std::span<const std::byte> all(bytes);
  const uint32_t whole = BitByBit(all);
  for (size_t cut : {0u, 1u, 15u, 16u, 4096u, 69999u, 70000u}) {
    const auto first = all.first(cut), second = all.subspan(cut);
    for (const Crc32Function function : Crc32Functions()) {
      EXPECT_EQ(function(second, function(first, 0)), whole) << cut;
    }
    EXPECT_EQ(Crc32Combine(Crc32(first), Crc32(second), second.size()), whole) << cut;
  }
}

}  // namespace
}  // namespace oort
