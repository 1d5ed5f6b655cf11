// SPDX-License-Identifier: MIT
// Peaks of types below f32 on aarch64. The instructions are written as numbers, because an
// assembler takes them only with flags that the rest of the program must not have.
#include "cpu/roofs.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

#define OORT_ROOF_OP(code, d, n, m) ".inst (" code " + (" #m " << 16) + (" #n " << 5) + " #d ")\n"
// Eight accumulators; sources differ, see MultiplyAdd in roofs.simd.cpp.
#define OORT_ROOF_ROW(code, d0, d1, d2, d3, d4, d5, d6, d7, k1, k2, k3, k4) \
  OORT_ROOF_OP(code, d0, 0, k1)                                             \
  OORT_ROOF_OP(code, d1, 1, k2)                                             \
  OORT_ROOF_OP(code, d2, 2, k3)                                             \
  OORT_ROOF_OP(code, d3, 3, k4)                                             \
  OORT_ROOF_OP(code, d4, 4, k1)                                             \
  OORT_ROOF_OP(code, d5, 5, k2)                                             \
  OORT_ROOF_OP(code, d6, 6, k3)                                             \
  OORT_ROOF_OP(code, d7, 7, k4)
#define OORT_ROOF_LOOP(code) \
  asm volatile(                                                         \
      "1:\n"                                                            \
      "ldp q0, q1, [%1]\n"                                              \
      "ldp q2, q3, [%1, 32]\n"                                          \
      OORT_ROOF_ROW(code, 8, 9, 10, 11, 12, 13, 14, 15, 4, 5, 6, 7)     \
      "ldp q4, q5, [%1, 64]\n"                                          \
      OORT_ROOF_ROW(code, 16, 17, 18, 19, 20, 21, 22, 23, 5, 6, 7, 4)   \
      "ldp q6, q7, [%1, 96]\n"                                          \
      OORT_ROOF_ROW(code, 24, 25, 26, 27, 28, 29, 30, 31, 6, 7, 4, 5)   \
      "subs %0, %0, 1\n"                                                \
      "b.gt 1b\n"                                                       \
      : "+r"(steps)                                                     \
      : "r"(kRoofData)                                                     \
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", \
        "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",     \
        "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc")

namespace oort {
namespace {

constexpr int kRoofSums = 24;
alignas(64) constexpr float kRoofData[32] = {};

void HalfLoop(int64_t steps) { OORT_ROOF_LOOP("0x4e400c00"); }    // fmla v.8h
void BfloatLoop(int64_t steps) { OORT_ROOF_LOOP("0x6e40ec00"); }  // bfmmla v.4s

}  // namespace

std::vector<LowRoof> LowRoofs() {
  std::vector<LowRoof> roofs;
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0) {
    roofs.push_back({DType::kF16, Isa::kNeon, 2 * 8 * kRoofSums, HalfLoop});
  }
  if ((getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0) {
    roofs.push_back({DType::kBF16, Isa::kNeon, 2 * 16 * kRoofSums, BfloatLoop});
  }
  return roofs;
}

}  // namespace oort
#elif !defined(__x86_64__)
namespace oort {
std::vector<LowRoof> LowRoofs() { return {}; }
}  // namespace oort
#endif
