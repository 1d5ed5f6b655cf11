// SPDX-License-Identifier: MIT
#include "cpu/gemm_precision.h"

#include <string>

#include "cpu/features.h"
#include "oort/error.h"

namespace oort {
namespace {

void AddBf16(Isa isa, std::vector<GemmVariant>& variants) {
  variants.push_back({"rounded", isa, &RoundedGemmKernelsFor(isa).gemm});
#if defined(__aarch64__)
  if (isa == Isa::kNeon && ThisCpu().arm_bf16) {
    variants.push_back({"neon_bf16", isa, &neon_bf16::GemmKernelsGet()});
  }
#elif defined(__x86_64__)
#if !defined(OORT_NO_AVX512_BF16)
  if (isa == Isa::kAvx512 && ThisCpu().avx512_bf16) {
    variants.push_back({"avx512_bf16", isa, &avx512_bf16::GemmKernelsGet()});
  }
#endif
#if !defined(OORT_NO_AMX)
  if (isa == Isa::kAvx512 && ThisCpu().amx_bf16) {
    variants.push_back({"amx", isa, &amx::GemmKernelsGet()});
  }
#endif
#endif
}

}  // namespace

std::string_view Name(Precision precision) {
  switch (precision) {
    case Precision::kBF16: return "bf16";
    case Precision::kF16: return "f16";
    case Precision::kTF32: return "tf32";
    default: return "f32";
  }
}

Precision PrecisionOf(std::string_view name) {
  for (const Precision precision :
       {Precision::kF32, Precision::kBF16, Precision::kF16, Precision::kTF32}) {
    if (Name(precision) == name) return precision;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "expected precision f32, bf16, f16 or tf32, got '" + std::string(name) + "'");
}

std::vector<GemmVariant> GemmVariants(Precision precision) {
  std::vector<GemmVariant> variants;
  for (const Isa isa : SupportedIsas()) {
    if (precision == Precision::kBF16) {
      AddBf16(isa, variants);
    } else {
      variants.push_back({Name(isa), isa, &GemmKernelsFor(isa)});
    }
  }
  return variants;
}

const GemmKernels& GemmKernelsFor(Isa isa, Precision precision) {
  if (precision != Precision::kBF16) return GemmKernelsFor(isa);
  std::vector<GemmVariant> variants;
  AddBf16(isa, variants);
  return *variants.back().kernels;
}

}  // namespace oort
