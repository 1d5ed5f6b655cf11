// SPDX-License-Identifier: MIT
#include "cpu/lanes_kernels.h"

#include "cpu/features.h"

namespace oort {

bool HasF16Arithmetic(Isa isa) { return isa == Isa::kNeon && ThisCpu().arm_f16; }

void CheckF16Arithmetic(Isa isa) {
  if (HasF16Arithmetic(isa)) return;
  throw Error(ErrorCode::kUnsupported,
              "precision f16 needs a processor with arithmetic on vectors of f16 (aarch64 with "
              "FEAT_FP16, instruction set neon) or a GPU; bf16 runs on every processor");
}

}  // namespace oort
