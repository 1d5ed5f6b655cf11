// SPDX-License-Identifier: MIT
#include "collectives/tcp/sha256.h"

#include <algorithm>
#include <bit>

namespace oort::tcp {
namespace {

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::Compress(const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) {
    w[i] = 0;
    for (size_t byte = 0; byte < 4; ++byte) {
      w[i] = (w[i] << 8) | std::to_integer<uint32_t>(block[4 * i + byte]);
    }
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t low = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t high = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  std::array<uint32_t, 8> s = state_;  // a to h of the standard
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t high = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const uint32_t first = s[7] + high + choice + kRoundConstants[i] + w[i];
    const uint32_t low = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    std::rotate(s.begin(), s.end() - 1, s.end());
    s[4] += first;
    s[0] = first + low + majority;
  }
  for (size_t i = 0; i < 8; ++i) state_[i] += s[i];
}

void Sha256::Add(std::span<const std::byte> bytes) {
  size_t used = static_cast<size_t>(bytes_ % block_.size());
  bytes_ += bytes.size();
  for (const std::byte byte : bytes) {
    block_[used++] = byte;
    if (used < block_.size()) continue;
    Compress(block_.data());
    used = 0;
  }
}

Digest256 Sha256::Finish() {
  const uint64_t bits = 8 * bytes_;
  const std::byte one{0x80}, zero{0};
  Add({&one, 1});
  while (bytes_ % block_.size() != block_.size() - sizeof(bits)) Add({&zero, 1});
  std::array<std::byte, sizeof(bits)> length;
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(bits >> (8 * (length.size() - 1 - i)));
  }
  Add(length);
  Digest256 digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::byte>(state_[i / 4] >> (8 * (3 - i % 4)));
  }
  return digest;
}

Digest256 HmacSha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  std::array<std::byte, 64> padded{};
  if (key.size() > padded.size()) {
    Sha256 hash;
    hash.Add(key);
    std::ranges::copy(hash.Finish(), padded.begin());
  } else {
    std::ranges::copy(key, padded.begin());
  }
  const auto keyed = [&](std::byte pad) {
    std::array<std::byte, 64> block = padded;
    for (std::byte& byte : block) byte ^= pad;
    Sha256 hash;
    hash.Add(block);
    return hash;
  };
  Sha256 inner = keyed(std::byte{0x36}), outer = keyed(std::byte{0x5c});
  inner.Add(message);
  outer.Add(inner.Finish());
  return outer.Finish();
}

bool EqualInConstantTime(const Digest256& one, const Digest256& other) {
  std::byte difference{0};
  for (size_t i = 0; i < one.size(); ++i) difference |= one[i] ^ other[i];
  // The compiler must not see that it may stop early.
  volatile std::byte seen = difference;
  return seen == std::byte{0};
}

}  // namespace oort::tcp
