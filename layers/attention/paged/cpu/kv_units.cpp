// SPDX-License-Identifier: MIT
#include "cpu/features.h"
#include "layers/attention/paged/cpu/kv_kernels.h"

namespace oort {

#if defined(__aarch64__)
namespace neon_bf16 {
const KvTileKernels& KvTileKernelsGet();
}
const KvTileKernels* KvTileKernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_bf16 ? &neon_bf16::KvTileKernelsGet() : nullptr;
}
namespace neon_i8mm {
const KvF16Kernels& KvF16KernelsGet();
}
const KvF16Kernels* KvF16KernelsFor(Isa isa) {
  return isa == Isa::kNeon && ThisCpu().arm_i8mm ? &neon_i8mm::KvF16KernelsGet() : nullptr;
}
#else
const KvF16Kernels* KvF16KernelsFor(Isa) { return nullptr; }
#endif

#if defined(__x86_64__) && !defined(OORT_NO_AMX)
namespace amx {
const KvTileKernels& KvTileKernelsGet();
}
const KvTileKernels* KvTileKernelsFor(Isa isa) {
  return isa == Isa::kAvx512 && ThisCpu().amx_bf16 ? &amx::KvTileKernelsGet() : nullptr;
}
#elif !defined(__aarch64__)
const KvTileKernels* KvTileKernelsFor(Isa) { return nullptr; }
#endif

}  // namespace oort
