// SPDX-License-Identifier: MIT
#include <array>
#include <cstdlib>

#include "oort/error.h"
#include "oort/layer.h"

namespace oort {
namespace {

struct IsaList {
  std::array<Isa, 4> isas{};
  size_t count = 0;
  void Add(Isa isa) { isas[count++] = isa; }
};

IsaList Probe() {
  IsaList list;
  list.Add(Isa::kScalar);
#if defined(__aarch64__)
  list.Add(Isa::kNeon);
#elif defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list.Add(Isa::kAvx2);
#if !defined(OORT_NO_AVX512)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    list.Add(Isa::kAvx512);
  }
#endif
#endif
  return list;
}

}  // namespace

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kNeon: return "neon";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "unknown";
}

std::span<const Isa> SupportedIsas() {
  static const IsaList list = Probe();
  return {list.isas.data(), list.count};
}

Isa DefaultIsa() {
  const std::span<const Isa> isas = SupportedIsas();
  if (const char* wanted = std::getenv("OORT_ISA"); wanted != nullptr && *wanted != '\0') {
    for (Isa isa : isas) {
      if (Name(isa) == wanted) return isa;
    }
    throw Error(ErrorCode::kInvalidArgument,
                std::string("OORT_ISA=") + wanted + " is not an instruction set of this machine");
  }
  return isas.back();
}

}  // namespace oort
