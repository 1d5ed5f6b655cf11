// SPDX-License-Identifier: MIT
#include "cpu/lapack.h"

#include "oort/error.h"
#ifdef OORT_LAPACK
#include <dlfcn.h>
#endif

namespace oort::lapack {
namespace {

struct Library {
  bool available = false;
  std::string description;
  Routines<float> f32{};
  Routines<double> f64{};
  Routines<std::complex<float>> c64{};
  Routines<std::complex<double>> c128{};
};

#ifdef OORT_LAPACK

// Either has BLAS, too: the second through a library that it depends on itself.
constexpr const char* kOpenBlas = "libopenblas.so.0";
constexpr const char* kLapack = "liblapack.so.3";

/// Finds the routines of one type of numbers.
class Finder {
 public:
  Finder(void* library, const char* prefix) : library_(library), prefix_(prefix) {}
  template <typename Function>
  void operator()(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_, (prefix_ + name + "_").c_str()));
    complete_ = complete_ && function != nullptr;
  }
  bool complete() const { return complete_; }

 private:
  void* library_;
  std::string prefix_;
  bool complete_ = true;
};

template <typename T>
bool Find(void* library, const char* prefix, Routines<T>& to) {
  constexpr bool kComplex = !std::is_same_v<T, Real<T>>;
  Finder find(library, prefix);
  find("gemm", to.gemm);
  find("trsm", to.trsm);
  find("getrf", to.getrf);
  find("getrs", to.getrs);
  find("potrf", to.potrf);
  find("potrs", to.potrs);
  find("potri", to.potri);
  find("geqrf", to.geqrf);
  find(kComplex ? "ungqr" : "orgqr", to.orgqr);
  find("gels", to.gels);
  find("gesdd", to.gesdd);
  find(kComplex ? "heevd" : "syevd", to.syevd);
  find("geev", to.geev);
  find("gelsy", to.gelsy);
  find("gelsd", to.gelsd);
  find("gelss", to.gelss);
  return find.complete();
}

std::string Describe(void* library) {
  if (const auto config =
          reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_config"))) {
    const std::string text = config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …"
    return text.substr(0, text.find(' ', text.find(' ') + 1));
  }
  const auto version = reinterpret_cast<void (*)(Int*, Int*, Int*)>(dlsym(library, "ilaver_"));
  if (version == nullptr) return "LAPACK";
  Int major = 0, minor = 0, patch = 0;
  version(&major, &minor, &patch);
  return "LAPACK " + std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(patch);
}

/// A program that brought OpenBLAS itself, as one with Armadillo does, keeps its own setting.
void* Open() {
  if (void* present = dlopen(kOpenBlas, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return present;
  void* library = dlopen(kOpenBlas, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(kLapack, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  if (const auto set_threads =
          reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"))) {
    set_threads(1);
  }
  return library;
}

Library Load() {
  Library result;
  void* library = Open();
  if (library == nullptr) {
    result.description = std::string("none: neither ") + kOpenBlas + " nor " + kLapack +
                         " is installed (on Debian: apt-get install libopenblas0)";
    return result;
  }
  result.description = Describe(library);
  result.available = Find(library, "s", result.f32) && Find(library, "d", result.f64) &&
                     Find(library, "c", result.c64) && Find(library, "z", result.c128);
  if (!result.available) {
    result.description = "none: " + result.description + " lacks some of the routines";
  }
  return result;
}

#else

Library Load() {
  Library result;
  result.description = "none: this build has no LAPACK (it was configured with OORT_LAPACK=OFF)";
  return result;
}

#endif

const Library& Loaded() {
  static const Library library = Load();
  return library;
}

}  // namespace

bool IsAvailable() { return Loaded().available; }

void Require() {
  if (IsAvailable()) return;
  throw Error(ErrorCode::kUnsupported, "needs LAPACK, and there is " + Description());
}

const std::string& Description() { return Loaded().description; }

template <>
const Routines<float>& Get() {
  Require();
  return Loaded().f32;
}
template <>
const Routines<double>& Get() {
  Require();
  return Loaded().f64;
}
template <>
const Routines<std::complex<float>>& Get() {
  Require();
  return Loaded().c64;
}
template <>
const Routines<std::complex<double>>& Get() {
  Require();
  return Loaded().c128;
}

}  // namespace oort::lapack
