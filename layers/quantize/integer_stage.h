// SPDX-License-Identifier: MIT
// How units that multiply u8 have their images. Only for integer kernels.
#pragma once

#include <cstdint>
#include <cstring>

namespace oort::OORT_ISA {
namespace {

void StageUnsigned(const void* bytes, bool is_signed, int64_t count, void* staged) {
  if (!is_signed) {
    std::memcpy(staged, bytes, static_cast<size_t>(count));
    return;
  }
  const uint8_t* from = static_cast<const uint8_t*>(bytes);
  uint8_t* to = static_cast<uint8_t*>(staged);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] ^ 0x80u;
}

}  // namespace
}  // namespace oort::OORT_ISA
