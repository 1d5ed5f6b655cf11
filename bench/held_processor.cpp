// SPDX-License-Identifier: MIT
// Holds a program to fewer instruction sets than its processor has, so that runtimes are compared
// as they would run on an older one. bench/compare --level compiles it and loads it into all:
//   c++ -O1 -shared -fPIC -o held.so bench/held_processor.cpp
//   OORT_HELD_TO=avx2 LD_PRELOAD=./held.so PROGRAM
// The instruction CPUID traps, and is answered without what that level does not have. The switches
// of the runtimes hold them only in part: ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA, for one,
// leave torch's large products to MKL, which takes AVX-512. For Linux on x86-64 processors whose
// CPUID may trap ("cpuid_fault" in /proc/cpuinfo).
#if !defined(__linux__) || !defined(__x86_64__)
#error "needs Linux on x86-64"
#endif

#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

/// Bits of CPUID's leaf 7 that a level goes without, subleaf 0 and 1.
struct Missing {
  unsigned ebx = 0, ecx = 0, edx = 0;
  unsigned eax1 = 0, edx1 = 0;
};

constexpr unsigned Bits(std::initializer_list<int> bits) {
  unsigned sum = 0;
  for (const int bit : bits) sum |= 1u << bit;
  return sum;
}

// AMX with bf16, its tiles, with int8; AVX-512 on f16. Behind subleaf 1: AVX512-BF16, AMX on f16;
// AVX-VNNI-INT8 and -INT16, AVX-NE-CONVERT, AMX-COMPLEX, AVX10.
constexpr Missing kMatrixUnits = {0, 0, Bits({22, 23, 24, 25}), Bits({5, 21}),
                                  Bits({4, 5, 8, 10, 19})};
// F, DQ, IFMA, PF, ER, CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; 4VNNIW, 4FMAPS,
// VP2INTERSECT. Behind subleaf 1: AVX-IFMA.
constexpr Missing kVectors512 = {Bits({16, 17, 21, 26, 27, 28, 30, 31}), Bits({1, 6, 11, 12, 14}),
                                 Bits({2, 3, 8}), Bits({23}), 0};
constexpr Missing kAvxVnni = {0, 0, 0, Bits({4}), 0};

constexpr Missing operator|(const Missing& a, const Missing& b) {
  return {a.ebx | b.ebx, a.ecx | b.ecx, a.edx | b.edx, a.eax1 | b.eax1, a.edx1 | b.edx1};
}

struct Level {
  const char* name;
  Missing missing;
};
constexpr Level kLevels[] = {{"avx2", kMatrixUnits | kVectors512 | kAvxVnni},
                             {"avx-vnni", kMatrixUnits | kVectors512},
                             {"avx512-vnni", kMatrixUnits}};

Missing missing;

long SetTrap(bool on) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, on ? 0L : 1L); }

/// What the processor says, without what is missing.
std::array<unsigned, 4> Answer(unsigned leaf, unsigned subleaf) {
  std::array<unsigned, 4> r{};
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  constexpr unsigned kTiles = 0x1d, kTileProducts = 0x1e, kAvx10 = 0x24;
  if (leaf == kTiles || leaf == kTileProducts || leaf == kAvx10) r = {};
  if (leaf == 7 && subleaf == 0) {
    r[1] &= ~missing.ebx;
    r[2] &= ~missing.ecx;
    r[3] &= ~missing.edx;
  } else if (leaf == 7 && subleaf == 1) {
    r[0] &= ~missing.eax1;
    r[3] &= ~missing.edx1;
  }
  return r;
}

void Handle(int signal_number, siginfo_t*, void* context) {
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  if (code[0] != 0x0f || code[1] != 0xa2) {  // another fault, which comes again without us
    signal(signal_number, SIG_DFL);
    return;
  }
  SetTrap(false);
  const auto answer =
      Answer(static_cast<unsigned>(registers[REG_RAX]), static_cast<unsigned>(registers[REG_RCX]));
  SetTrap(true);
  registers[REG_RAX] = answer[0];
  registers[REG_RBX] = answer[1];
  registers[REG_RCX] = answer[2];
  registers[REG_RDX] = answer[3];
  registers[REG_RIP] += 2;
}

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "held_processor: %s\n", what);
  std::_Exit(1);
}

[[gnu::constructor]] void Hold() {
  const char* name = std::getenv("OORT_HELD_TO");
  const Level* level = nullptr;
  for (const Level& known : kLevels) {
    if (name != nullptr && std::strcmp(name, known.name) == 0) level = &known;
  }
  if (level == nullptr) Fail("OORT_HELD_TO is avx2, avx-vnni or avx512-vnni");
  missing = level->missing;
  struct sigaction action = {};
  action.sa_sigaction = Handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSEGV, &action, nullptr) != 0 || SetTrap(true) != 0) {
    Fail("CPUID does not trap on this processor");
  }
}

}  // namespace
