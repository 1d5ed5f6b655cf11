// SPDX-License-Identifier: MIT
#include "weights/write_blocks.h"

#include <cstring>

#include "oort/dtype.h"
#include "oort/error.h"

namespace oort {
namespace {

/// The bytes of a block in their order.
class BlockBytes {
 public:
  explicit BlockBytes(std::byte* to) : to_(to) {}
  void Half(float value) {
    const uint16_t bits = oort::Half(value).bits;
    std::memcpy(to_, &bits, sizeof(bits));
    to_ += sizeof(bits);
  }
  void Put(const void* bytes, size_t count) {
    std::memcpy(to_, bytes, count);
    to_ += count;
  }

 private:
  std::byte* to_;
};

/// Element i and element i + 16 share a byte.
void PackHalves(const int8_t* codes, int offset, uint8_t* qs) {
  for (int i = 0; i < 16; ++i) {
    const int low = codes[i] + offset, high = codes[16 + i] + offset;
    qs[i] = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
  }
}

void WriteFour(const BlockParts& parts, bool has_minimum, BlockBytes out) {
  uint8_t qs[16];
  PackHalves(parts.codes, has_minimum ? 0 : 8, qs);
  out.Half(parts.scale);
  if (has_minimum) out.Half(parts.minimum);
  out.Put(qs, sizeof(qs));
}

void WriteFive(const BlockParts& parts, bool has_minimum, BlockBytes out) {
  const int offset = has_minimum ? 0 : 16;
  uint8_t qs[16];
  PackHalves(parts.codes, offset, qs);
  uint32_t high = 0;
  for (unsigned i = 0; i < 32; ++i) {
    high |= static_cast<uint32_t>((parts.codes[i] + offset) >> 4 & 1) << i;
  }
  out.Half(parts.scale);
  if (has_minimum) out.Half(parts.minimum);
  out.Put(&high, sizeof(high));
  out.Put(qs, sizeof(qs));
}

void WriteEight(const BlockParts& parts, BlockBytes out) {
  out.Half(parts.scale);
  out.Put(parts.codes, 32);
}

/// Eight scales and minimums of six bits each in 12 bytes.
void PackSixBits(const int* scales, const int* minimums, uint8_t* to) {
  for (int g = 0; g < 4; ++g) {
    to[g] = static_cast<uint8_t>(scales[g] | (scales[g + 4] >> 4) << 6);
    to[g + 4] = static_cast<uint8_t>(minimums[g] | (minimums[g + 4] >> 4) << 6);
    to[g + 8] = static_cast<uint8_t>((scales[g + 4] & 15) | (minimums[g + 4] & 15) << 4);
  }
}

void WriteSuper(const BlockParts& parts, bool five, BlockBytes out) {
  uint8_t scales[12], high[32] = {}, low[128];
  PackSixBits(parts.scale_counts, parts.minimum_counts, scales);
  for (int pair = 0; pair < 4; ++pair) {
    const int8_t* from = parts.codes + 64 * pair;
    for (int i = 0; i < 32; ++i) {
      low[32 * pair + i] = static_cast<uint8_t>((from[i] & 15) | (from[32 + i] & 15) << 4);
      const int bits = (from[i] >> 4 & 1) | (from[32 + i] >> 4 & 1) << 1;
      high[i] = static_cast<uint8_t>(high[i] | bits << (2 * pair));
    }
  }
  out.Half(parts.scale);
  out.Half(parts.minimum);
  out.Put(scales, sizeof(scales));
  if (five) out.Put(high, sizeof(high));
  out.Put(low, sizeof(low));
}

void WriteSix(const BlockParts& parts, BlockBytes out) {
  uint8_t low[128], high[64];
  int8_t scales[16];
  for (int half = 0; half < 2; ++half) {
    const int8_t* from = parts.codes + 128 * half;
    const auto code = [&](int i) { return from[i] + 32; };
    for (int i = 0; i < 32; ++i) {
      low[64 * half + i] = static_cast<uint8_t>((code(i) & 15) | (code(64 + i) & 15) << 4);
      low[64 * half + 32 + i] =
          static_cast<uint8_t>((code(32 + i) & 15) | (code(96 + i) & 15) << 4);
      high[32 * half + i] = static_cast<uint8_t>(code(i) >> 4 | code(32 + i) >> 4 << 2 |
                                                 code(64 + i) >> 4 << 4 | code(96 + i) >> 4 << 6);
    }
  }
  for (int g = 0; g < 16; ++g) scales[g] = static_cast<int8_t>(parts.scale_counts[g]);
  out.Put(low, sizeof(low));
  out.Put(high, sizeof(high));
  out.Put(scales, sizeof(scales));
  out.Half(parts.scale);
}

}  // namespace

bool CanWriteBlocks(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_0:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ8_0:
    case WeightFormat::kQ4K:
    case WeightFormat::kQ5K:
    case WeightFormat::kQ6K: return true;
    default: return false;
  }
}

void WriteBlock(WeightFormat format, const BlockParts& parts, std::byte* to) {
  const BlockBytes out(to);
  switch (format) {
    case WeightFormat::kQ4_0: return WriteFour(parts, false, out);
    case WeightFormat::kQ4_1: return WriteFour(parts, true, out);
    case WeightFormat::kQ5_0: return WriteFive(parts, false, out);
    case WeightFormat::kQ5_1: return WriteFive(parts, true, out);
    case WeightFormat::kQ8_0: return WriteEight(parts, out);
    case WeightFormat::kQ4K: return WriteSuper(parts, false, out);
    case WeightFormat::kQ5K: return WriteSuper(parts, true, out);
    case WeightFormat::kQ6K: return WriteSix(parts, out);
    default: throw Error(ErrorCode::kInternal, "blocks of a format that cannot be written");
  }
}

}  // namespace oort
