// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace oort {

/// The CRC-32 of zip and PNG. `crc` is that of the bytes before, so that pieces can be chained.
uint32_t Crc32(std::span<const std::byte> bytes, uint32_t crc = 0);

/// The CRC-32 of two stretches of bytes, one behind the other, from theirs alone.
uint32_t Crc32Combine(uint32_t first, uint32_t second, uint64_t second_size);

/// The ways that Crc32 may go on this machine, fastest last, for tests.
using Crc32Function = uint32_t (*)(std::span<const std::byte> bytes, uint32_t crc);
std::span<const Crc32Function> Crc32Functions();

}  // namespace oort
