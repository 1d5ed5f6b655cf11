// SPDX-License-Identifier: MIT
#include "cli/version.h"

#include <iostream>
#include <string>
#include <vector>

#include "cli/text.h"
#include "cpu/lapack.h"

namespace oort::cli {
namespace {

// The build defines these for this file alone.
constexpr const char* kGlog = OORT_GLOG_VERSION;        // "" without it
constexpr const char* kOpenMp = OORT_OPENMP_VERSION;    // "" without it
constexpr const char* kCuda = OORT_CUDA_VERSION;        // "" without it
constexpr const char* kGpus = OORT_CUDA_ARCHITECTURES;  // "80-real 90"
constexpr const char* kBoost = OORT_BOOST_VERSION;      // "" without a server
constexpr const char* kIsas = OORT_ISA_NAMES;           // "scalar avx2 avx512"

std::string OrNone(const std::string& name, const std::string& version) {
  return version.empty() ? "none" : name + version;
}

std::string Threads() {
#ifdef OORT_OWN_THREADS
  return "own";
#else
  return OrNone("OpenMP ", kOpenMp);
#endif
}

}  // namespace

std::string Version() { return OORT_VERSION; }

int PrintVersion(bool json) {
  const std::string cuda = std::string(kCuda).empty()
                               ? "none"
                               : std::string(kCuda) + ", for compute capability " + kGpus;
  if (json) {
    Print(std::cout, {{"version", OORT_VERSION},
                      {"kernels", kIsas},
                      {"threads", Threads()},
                      {"openmp", kOpenMp},
                      {"lapack", lapack::IsAvailable() ? lapack::Description() : ""},
                      {"glog", kGlog},
                      {"server", kBoost},
                      {"cuda", kCuda},
                      {"cuda_architectures", kGpus}});
    return 0;
  }
  std::cout << "oort " OORT_VERSION "\n"
            << "  kernels  " << kIsas << '\n'
            << "  threads  " << Threads() << '\n'
            << "  LAPACK   " << lapack::Description() << '\n'
            << "  log      " << OrNone("glog ", kGlog) << '\n'
            << "  server   " << OrNone("Boost.Beast of Boost ", kBoost) << '\n'
            << "  CUDA     " << cuda << '\n';
  return 0;
}

}  // namespace oort::cli
