// SPDX-License-Identifier: MIT
#include "cpu/lanes_kernels.h"

#include "cpu/features.h"
#include "cpu/tiles_f16.h"

namespace oort {

bool HasF16Arithmetic([[maybe_unused]] Isa isa) {
#if defined(OORT_F16_UNIT)
  if (isa == Isa::kNeon) return ThisCpu().arm_f16;
  if (isa == Isa::kAvx512) return ThisCpu().avx512_f16;
#endif
  return false;
}

void CheckF16Arithmetic(Isa isa) {
  if (HasF16Arithmetic(isa)) return;
  throw Error(ErrorCode::kUnsupported,
              "precision f16 needs a processor with arithmetic on vectors of f16 (aarch64 with "
              "FEAT_FP16, instruction set neon, or x86-64 with AVX512-FP16, instruction set "
              "avx512) or a GPU; bf16 runs on every processor");
}

const TileKernelsF16* FindTileKernelsF16([[maybe_unused]] Isa isa) {
#if defined(OORT_F16_UNIT)
  if (isa == Isa::kAvx512 && ThisCpu().amx_f16) return OORT_F16_UNIT::TileKernelsF16Get();
#endif
  return nullptr;
}

}  // namespace oort
