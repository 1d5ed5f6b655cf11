// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104): enough for ranks to prove that they know a
// secret, so that the library needs no other one for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace oort::tcp {

using Digest256 = std::array<std::byte, 32>;

class Sha256 {
 public:
  void Add(std::span<const std::byte> bytes);
  /// Of all that was added; nothing may be added any more.
  Digest256 Finish();

 private:
  void Compress(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block_{};
  uint64_t bytes_ = 0;
};

Digest256 HmacSha256(std::span<const std::byte> key, std::span<const std::byte> message);

/// Takes the same time whatever they hold.
bool EqualInConstantTime(const Digest256& one, const Digest256& other);

}  // namespace oort::tcp
