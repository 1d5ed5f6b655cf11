// SPDX-License-Identifier: MIT
// What this processor has beyond the instruction sets of cpu/kernels.h.
#pragma once

#include <string>
#include <vector>

namespace oort {

struct CpuFeatures {
  bool arm_bf16 = false;     ///< BFMMLA: products of 2x4 by 4x2 matrices of bf16
  bool arm_f16 = false;      ///< FEAT_FP16: arithmetic on vectors of f16
  bool arm_dot = false;      ///< SDOT: sums of four products of bytes
  bool arm_i8mm = false;     ///< SMMLA, USDOT, and FMLAL: products of bytes, and of f16 to f32
  bool avx_vnni = false;     ///< VPDPBUSD on vectors of 256 bits
  bool avx512_vnni = false;  ///< VPDPBUSD: sums of four products of bytes
  bool avx512_f16 = false;   ///< AVX512-FP16: arithmetic on vectors of f16
  bool avx512_bf16 = false;  ///< VDPBF16PS: sums of pairs of products of bf16
  bool amx_bf16 = false;     ///< TDPBF16PS: products of 16x32 by 32x16 matrices of bf16
  bool amx_f16 = false;      ///< TDPFP16PS: the same of f16
  bool amx_int8 = false;     ///< TDPBUSD: products of 16x64 by 64x16 matrices of bytes

  /// "bf16 matrices (BFMMLA)", …; for people.
  std::vector<std::string> Names() const;
};

/// Asked of the processor and the system once; on Linux this asks for the permission to use AMX.
/// Without those whose names (as above) begin as one in the environment variable OORT_CPU_WITHOUT:
/// "amx,avx512_bf16".
const CpuFeatures& ThisCpu();

}  // namespace oort
