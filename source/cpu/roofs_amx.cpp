// SPDX-License-Identifier: MIT
// Peaks of types below f32 on x86-64: products of tiles, with their factors loaded in each step as
// in a matrix product. Instructions that an assembler may not know are written as numbers.
#include "cpu/features.h"
#include "cpu/roofs.h"

#if defined(__x86_64__)

// tmm`sums` += tmm`a` * tmm`b`, of bf16 by the prefix 2 and of f16 by 3.
#define OORT_ROOF_PRODUCT(prefix, sums, a, b) \
  ".byte 0xc4, 0xe2, ((~" #b " & 15) << 3) | " #prefix ", 0x5c, 0xc0 | (" #sums " << 3) | " #a "\n"
#define OORT_ROOF_LOOP(prefix) \
  asm volatile(                                                                       \
      "ldtilecfg (%1)\n"                                                              \
      "tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n"       \
      "1:\n"                                                                          \
      "tileloadd (%2,%3,1), %%tmm4\n tileloadd (%2,%3,1), %%tmm6\n"                   \
      OORT_ROOF_PRODUCT(prefix, 0, 4, 6) "tileloadd (%2,%3,1), %%tmm7\n"              \
      OORT_ROOF_PRODUCT(prefix, 1, 4, 7) "tileloadd (%2,%3,1), %%tmm5\n"              \
      OORT_ROOF_PRODUCT(prefix, 2, 5, 6) OORT_ROOF_PRODUCT(prefix, 3, 5, 7)           \
      "dec %0\n"                                                                      \
      "jg 1b\n"                                                                       \
      "tilerelease\n"                                                                 \
      : "+r"(steps)                                                                   \
      : "r"(&kRoofConfig), "r"(kRoofTile), "r"(int64_t{64})                           \
      : "memory", "cc")

namespace oort {
namespace {

/// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) RoofConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr RoofConfig kRoofConfig;
alignas(64) constexpr float kRoofTile[16 * 16] = {};
constexpr int kRoofFlops = 4 * 2 * 16 * 16 * 32;

void BfloatTiles(int64_t steps) { OORT_ROOF_LOOP(2); }
void HalfTiles(int64_t steps) { OORT_ROOF_LOOP(3); }

}  // namespace

std::vector<LowRoof> LowRoofs() {
  std::vector<LowRoof> roofs;
  if (ThisCpu().amx_f16) {
    roofs.push_back({DType::kF16, Isa::kAvx512, kRoofFlops, HalfTiles});
  }
  if (ThisCpu().amx_bf16) {
    roofs.push_back({DType::kBF16, Isa::kAvx512, kRoofFlops, BfloatTiles});
  }
  return roofs;
}

}  // namespace oort
#endif
