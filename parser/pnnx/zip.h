// SPDX-License-Identifier: MIT
// The zip inside a .bin: entries are stored, never compressed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/problems.h"
#include "oort/source.h"

namespace oort::pnnx {

struct ZipEntry {
  std::string name;
  uint64_t offset = 0;  ///< of the first byte of the payload
  uint64_t size = 0;
  uint32_t crc = 0;
};

/// Reads the central directory (classic or ZIP64) and checks each entry against its own header.
/// What is wrong with one entry goes to `problems`, and the entry is left out; throws where the
/// directory as a whole cannot be read. Payloads lie inside the file and do not overlap.
std::vector<ZipEntry> ReadZipDirectory(const ByteSource& source, ProblemList& problems);

}  // namespace oort::pnnx
