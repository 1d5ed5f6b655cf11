// SPDX-License-Identifier: MIT
// Which kernels multiply in less than f32: one for each kind of unit that processors have for it.
#pragma once

#include <string_view>
#include <vector>

#include "cpu/gemm.h"

namespace oort {

// Defined by gemm_*.bf16.cpp, which is compiled with the flags of such units.
#if defined(__aarch64__)
namespace neon_bf16 {
const GemmKernels& GemmKernelsGet();
}
#elif defined(__x86_64__)
namespace avx512_bf16 {
const GemmKernels& GemmKernelsGet();
}
namespace amx {
const GemmKernels& GemmKernelsGet();
}
#endif

struct GemmVariant {
  std::string_view name;  ///< "neon_bf16", "amx", …; "rounded" where f32 kernels multiply
  Isa isa = Isa::kScalar;
  const GemmKernels* kernels = nullptr;
};

/// All that this processor runs with a precision, for each instruction set the best last.
std::vector<GemmVariant> GemmVariants(Precision precision);

}  // namespace oort
