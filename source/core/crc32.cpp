// SPDX-License-Identifier: MIT
#include "core/crc32.h"

#include <array>
#include <cstring>

#if defined(__linux__) && defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define OORT_CRC32_ARM
#elif defined(__x86_64__)
#include <immintrin.h>
#define OORT_CRC32_X86
#endif

namespace oort {
namespace {

constexpr uint32_t kPolynomial = 0xedb88320u;  // bit 31 is the coefficient of x^0
constexpr size_t kStride = 16;
using Tables = std::array<std::array<uint32_t, 256>, kStride>;

/// Table k holds the effect of a byte that k more bytes follow, so that sixteen bytes need
/// sixteen independent look-ups instead of a chain.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
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

// The functions below take and give the register itself: what Crc32 returns, all bits inverted.

uint32_t ByTables(const uint8_t* data, size_t left, uint32_t crc) {
  for (; left >= kStride; left -= kStride, data += kStride) {
    uint32_t next = 0;
    for (size_t k = 0; k < kStride; ++k) {
      const uint32_t byte = k < 4 ? data[k] ^ ((crc >> (8 * k)) & 0xff) : data[k];
      next ^= kTables[kStride - 1 - k][byte];
    }
    crc = next;
  }
  for (; left > 0; --left) crc = (crc >> 8) ^ kTables[0][(crc ^ *data++) & 0xff];
  return crc;
}

/// a * b modulo the polynomial.
constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ (b & 1 ? kPolynomial : 0);
  }
  return product;
}

/// x^(8 * bytes) modulo the polynomial: what a register is multiplied with by so many zero bytes.
constexpr uint32_t Shift(uint64_t bytes) {
  uint32_t power = 1u << 31, square = 1u << 23;  // x^0, x^8
  for (; bytes != 0; bytes >>= 1, square = Multiply(square, square)) {
    if (bytes & 1) power = Multiply(power, square);
  }
  return power;
}

#ifdef OORT_CRC32_ARM

// arm_acle.h declares these only where the whole file is compiled for them.
#ifdef __clang__
#define OORT_TARGET_CRC __attribute__((target("crc")))
#define OORT_CRC_WORD __builtin_arm_crc32d
#define OORT_CRC_BYTE __builtin_arm_crc32b
#else
#define OORT_TARGET_CRC __attribute__((target("+crc")))
#define OORT_CRC_WORD __builtin_aarch64_crc32x
#define OORT_CRC_BYTE __builtin_aarch64_crc32b
#endif

uint64_t Word(const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

/// The instruction takes a word a cycle, but its result is there later: three streams keep it busy.
OORT_TARGET_CRC uint32_t ByInstruction(const uint8_t* data, size_t left, uint32_t crc) {
  constexpr size_t kLane = 16384;
  constexpr uint32_t kOneLane = Shift(kLane), kTwoLanes = Shift(2 * kLane);
  for (; left >= 3 * kLane; left -= 3 * kLane, data += 3 * kLane) {
    uint32_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      first = OORT_CRC_WORD(first, Word(data + i));
      second = OORT_CRC_WORD(second, Word(data + kLane + i));
      third = OORT_CRC_WORD(third, Word(data + 2 * kLane + i));
    }
    crc = Multiply(first, kTwoLanes) ^ Multiply(second, kOneLane) ^ third;
  }
  for (; left >= 8; left -= 8, data += 8) crc = OORT_CRC_WORD(crc, Word(data));
  for (; left > 0; --left) crc = OORT_CRC_BYTE(crc, *data++);
  return crc;
}

bool HasInstruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

#endif
#ifdef OORT_CRC32_X86

/// x^bits modulo the polynomial as a factor for a carry-less product of reflected numbers, which is
/// one bit short.
constexpr int64_t Factor(int bits) {
  uint32_t power = 1u << 31;
  for (int i = 0; i < bits; ++i) power = (power >> 1) ^ (power & 1 ? kPolynomial : 0);
  return static_cast<int64_t>(uint64_t{power} << 1);
}

__attribute__((target("pclmul,sse4.1"))) inline __m128i Fold(__m128i sum, __m128i factors,
                                                             __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(sum, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/// Folds 64 bytes at a time onto the next 64, until 16 are left that have the same remainder.
__attribute__((target("pclmul,sse4.1"))) uint32_t ByInstruction(const uint8_t* data, size_t left,
                                                                uint32_t crc) {
  if (left < 128) return ByTables(data, left, crc);
  const auto load = [](const uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  const __m128i by_64 = _mm_set_epi64x(Factor(512 - 32), Factor(512 + 32));
  const __m128i by_16 = _mm_set_epi64x(Factor(128 - 32), Factor(128 + 32));
  __m128i a = _mm_xor_si128(load(data), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i b = load(data + 16), c = load(data + 32), d = load(data + 48);
  for (data += 64, left -= 64; left >= 64; data += 64, left -= 64) {
    a = Fold(a, by_64, load(data));
    b = Fold(b, by_64, load(data + 16));
    c = Fold(c, by_64, load(data + 32));
    d = Fold(d, by_64, load(data + 48));
  }
  const __m128i sum = Fold(Fold(Fold(a, by_16, b), by_16, c), by_16, d);
  uint8_t rest[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), sum);
  return ByTables(data, left, ByTables(rest, sizeof(rest), 0));
}

bool HasInstruction() {
  return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

#endif

template <uint32_t (*function)(const uint8_t*, size_t, uint32_t)>
uint32_t Inverted(std::span<const std::byte> bytes, uint32_t crc) {
  return ~function(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), ~crc);
}

}  // namespace

std::span<const Crc32Function> Crc32Functions() {
#if defined(OORT_CRC32_ARM) || defined(OORT_CRC32_X86)
  static constexpr Crc32Function kFunctions[] = {Inverted<ByTables>, Inverted<ByInstruction>};
  static const size_t count = HasInstruction() ? 2 : 1;
  return {kFunctions, count};
#else
  static constexpr Crc32Function kFunctions[] = {Inverted<ByTables>};
  return kFunctions;
#endif
}

uint32_t Crc32(std::span<const std::byte> bytes, uint32_t crc) {
  return Crc32Functions().back()(bytes, crc);
}

uint32_t Crc32Combine(uint32_t first, uint32_t second, uint64_t second_size) {
  return Multiply(first, Shift(second_size)) ^ second;
}

}  // namespace oort
