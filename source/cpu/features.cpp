// SPDX-License-Identifier: MIT
#include "cpu/features.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "oort/error.h"

#if defined(__linux__) && defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace oort {
namespace {

#if defined(__x86_64__)

bool Bit(unsigned value, int bit) { return ((value >> bit) & 1u) != 0; }

/// Which registers the system saves (XCR0). A build for one machine may have no unit that needs to
/// know.
[[maybe_unused]] unsigned SavedState() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !Bit(c, 27)) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/// What comes with AVX2.
void ProbeAvxVnni([[maybe_unused]] CpuFeatures& features) {
#if !defined(OORT_NO_AVX_VNNI)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || a < 1) return;
  __get_cpuid_count(7, 1, &a, &b, &c, &d);
  constexpr unsigned kVectors = 0x6;  // of 256 bits
  features.avx_vnni = Bit(a, 4) && (SavedState() & kVectors) == kVectors;
#endif
}

#endif

#if defined(__x86_64__) && !defined(OORT_NO_AVX512)

/// A process asks for the eight tiles once; Linux saves them only for those that did.
bool MayUseTiles(unsigned saved) {
  constexpr unsigned kTiles = (1u << 17) | (1u << 18);
  if ((saved & kTiles) != kTiles) return false;
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

/// A build for one machine has no kernels for the units that are not there.
void TakeAwayUncompiled([[maybe_unused]] CpuFeatures& features) {
#if defined(OORT_NO_AVX512_VNNI)
  features.avx512_vnni = false;
#endif
#if defined(OORT_NO_AVX512_BF16)
  features.avx512_bf16 = false;
#endif
#if defined(OORT_NO_AMX)
  features.amx_bf16 = features.amx_f16 = false;
#endif
#if defined(OORT_NO_AMX_INT8)
  features.amx_int8 = false;
#endif
#if defined(OORT_NO_F16_UNIT)
  features.avx512_f16 = features.amx_f16 = false;
#endif
}

#endif

CpuFeatures ProbeFeatures() {
  CpuFeatures features;
#if defined(__linux__) && defined(__aarch64__)
  constexpr unsigned long kBf16 = 1ul << 14;  // HWCAP2_BF16
  features.arm_bf16 = (getauxval(AT_HWCAP2) & kBf16) != 0;
  constexpr unsigned long kDot = 1ul << 20;  // HWCAP_ASIMDDP
  features.arm_dot = (getauxval(AT_HWCAP) & kDot) != 0;
  constexpr unsigned long kF16 = 1ul << 10;  // HWCAP_ASIMDHP
  features.arm_f16 = (getauxval(AT_HWCAP) & kF16) != 0;
  constexpr unsigned long kI8mm = 1ul << 13;  // HWCAP2_I8MM
  constexpr unsigned long kFhm = 1ul << 23;   // HWCAP_ASIMDFHM
  features.arm_i8mm = (getauxval(AT_HWCAP2) & kI8mm) != 0 && (getauxval(AT_HWCAP) & kFhm) != 0;
#elif defined(__APPLE__) && defined(__aarch64__)
  features.arm_dot = true;
  features.arm_f16 = true;
#if defined(__ARM_FEATURE_BF16)
  features.arm_bf16 = true;
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_FP16_FML)
  features.arm_i8mm = true;
#endif
#elif defined(__x86_64__)
  ProbeAvxVnni(features);
#if !defined(OORT_NO_AVX512)
  unsigned a = 0, b = 0, c = 0, d = 0, a1 = 0, b1 = 0, c1 = 0, d1 = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return features;
  if (a >= 1) __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1);
  const unsigned saved = SavedState();
  constexpr unsigned kVectors = 0xe6;  // of 512 bits, and masks
  features.avx512_vnni = Bit(c, 11) && (saved & kVectors) == kVectors;
  features.avx512_f16 = Bit(d, 23) && (saved & kVectors) == kVectors;
  features.avx512_bf16 = Bit(a1, 5) && (saved & kVectors) == kVectors;
  const bool tiles = Bit(d, 24) && MayUseTiles(saved);
  features.amx_bf16 = features.avx512_bf16 && Bit(d, 22) && tiles;
  features.amx_int8 = features.avx512_vnni && Bit(d, 25) && tiles;
  features.amx_f16 = features.amx_bf16 && features.avx512_f16 && Bit(a1, 21);
  TakeAwayUncompiled(features);
#endif
#endif
  return features;
}

struct NamedFeature {
  std::string_view name;
  bool CpuFeatures::*has;
};
constexpr NamedFeature kNamedFeatures[] = {
    {"arm_bf16", &CpuFeatures::arm_bf16},     {"arm_f16", &CpuFeatures::arm_f16},
    {"arm_dot", &CpuFeatures::arm_dot},       {"arm_i8mm", &CpuFeatures::arm_i8mm},
    {"avx_vnni", &CpuFeatures::avx_vnni},     {"avx512_vnni", &CpuFeatures::avx512_vnni},
    {"avx512_f16", &CpuFeatures::avx512_f16}, {"avx512_bf16", &CpuFeatures::avx512_bf16},
    {"amx_bf16", &CpuFeatures::amx_bf16},     {"amx_f16", &CpuFeatures::amx_f16},
    {"amx_int8", &CpuFeatures::amx_int8},
};

/// Takes away those whose names begin with `prefix`.
void TakeAway(std::string_view prefix, CpuFeatures& features) {
  bool known = false;
  for (const NamedFeature& feature : kNamedFeatures) {
    if (!feature.name.starts_with(prefix)) continue;
    features.*feature.has = false;
    known = true;
  }
  if (!known) {
    throw Error(ErrorCode::kInvalidArgument,
                "OORT_CPU_WITHOUT: no unit of a processor is called '" + std::string(prefix) + "'");
  }
}

CpuFeatures FeaturesToUse() {
  CpuFeatures features = ProbeFeatures();
  const char* without = std::getenv("OORT_CPU_WITHOUT");
  for (std::string_view rest = without == nullptr ? "" : without; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    TakeAway(rest.substr(0, comma), features);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return features;
}

}  // namespace

std::vector<std::string> CpuFeatures::Names() const {
  std::vector<std::string> names;
  if (arm_bf16) names.emplace_back("bf16 matrices (BFMMLA)");
  if (arm_f16) names.emplace_back("f16 vectors (FP16)");
  if (arm_dot) names.emplace_back("sums of byte products (SDOT)");
  if (arm_i8mm) names.emplace_back("matrices of bytes (SMMLA)");
  if (avx_vnni) names.emplace_back("sums of byte products (AVX-VNNI)");
  if (avx512_vnni) names.emplace_back("sums of byte products (AVX512-VNNI)");
  if (avx512_f16) names.emplace_back("f16 vectors (AVX512-FP16)");
  if (amx_bf16) names.emplace_back("bf16 tiles (AMX)");
  if (amx_f16) names.emplace_back("f16 tiles (AMX)");
  if (amx_int8) names.emplace_back("byte tiles (AMX)");
  if (avx512_bf16) names.emplace_back("bf16 pairs (AVX512-BF16)");
  return names;
}

const CpuFeatures& ThisCpu() {
  static const CpuFeatures features = FeaturesToUse();
  return features;
}

}  // namespace oort
