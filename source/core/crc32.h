// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace oort {

/// The CRC-32 of zip and PNG. `crc` is that of the bytes before, so a stream can be fed in pieces.
uint32_t Crc32(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace oort
