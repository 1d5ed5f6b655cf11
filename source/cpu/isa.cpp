// SPDX-License-Identifier: MIT
#include <array>
#include <cstdlib>
#include <string>

#include "oort/error.h"
#include "oort/isa.h"

namespace oort {
namespace {

struct IsaList {
  std::array<Isa, 4> isas{};
  size_t count = 0;
  void Add(Isa isa) { isas[count++] = isa; }
};

IsaList Probe() {
  IsaList list;
#if !defined(OORT_NO_SCALAR)
  list.Add(Isa::kScalar);
#endif
#if defined(__aarch64__)
  list.Add(Isa::kNeon);
#elif defined(__x86_64__)
  __builtin_cpu_init();
#if !defined(OORT_NO_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list.Add(Isa::kAvx2);
#endif
#if !defined(OORT_NO_AVX512)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    list.Add(Isa::kAvx512);
  }
#endif
#endif
  return list;
}

std::string NamesOfSupported() {
  std::string names;
  for (const Isa isa : SupportedIsas())
    names += (names.empty() ? "" : ", ") + std::string(Name(isa));
  return names;
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

Isa IsaOf(std::string_view name) {
  for (const Isa isa : SupportedIsas()) {
    if (Name(isa) == name) return isa;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "'" + std::string(name) +
                  "' is not an instruction set that this machine has and this build has kernels "
                  "for; there is " +
                  NamesOfSupported() + " ('tools/build --package' builds all kernels)");
}

Isa DefaultIsa() {
  const std::span<const Isa> isas = SupportedIsas();
  if (isas.empty()) {
    throw Error(
        ErrorCode::kUnsupported,
        "this build has kernels only for another processor than this one; build it here, or for "
        "all processors with 'tools/build --package'");
  }
  if (const char* wanted = std::getenv("OORT_ISA"); wanted != nullptr && *wanted != '\0') {
    try {
      return IsaOf(wanted);
    } catch (const Error& error) {
      throw Error(error.code(), std::string("OORT_ISA: ") + error.what());
    }
  }
  return isas.back();
}

}  // namespace oort
