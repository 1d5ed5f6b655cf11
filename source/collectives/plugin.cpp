// SPDX-License-Identifier: MIT
#include "collectives/plugin.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "collectives/transport_collective.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr const char* kMpiPlugin = "liboort-mpi.so";

std::vector<std::string> PlacesOfPlugin() {
  if (const char* given = std::getenv("OORT_MPI"); given != nullptr && *given != '\0') {
    return {given};
  }
  std::vector<std::string> places;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto folder = program.parent_path();
    places.push_back((folder / kMpiPlugin).string());
    places.push_back((folder.parent_path() / "lib" / kMpiPlugin).string());
  }
  places.emplace_back(kMpiPlugin);
  return places;
}

}  // namespace

std::unique_ptr<Collective> OpenMpi(double deadline) {
  // Others follow one model, and MPI cannot be started twice in a process.
  static std::atomic<bool> opened_before = false;
  if (opened_before.exchange(true)) {
    throw Error(ErrorCode::kUnsupported, "the ranks of mpirun compute one model: load no second");
  }
  std::string why;
  for (const std::string& place : PlacesOfPlugin()) {
    // MPI's own plug-ins look for its symbols.
    void* const opened = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (opened == nullptr) {
      const char* text = dlerror();
      why = text != nullptr ? text : place;
      continue;
    }
    // It is never closed: MPI would not survive that.
    const auto function =
        reinterpret_cast<OortTransportFunction>(dlsym(opened, OORT_TRANSPORT_FUNCTION));
    const OortTransport* transport = function != nullptr ? function() : nullptr;
    if (transport == nullptr || transport->version != OORT_TRANSPORT_VERSION) {
      throw Error(ErrorCode::kUnsupported, place + " is no plug-in for this version of Oort");
    }
    return MakeTransportGroup(*transport, nullptr, deadline);
  }
  throw Error(ErrorCode::kUnsupported,
              "ranks of mpirun need the plug-in liboort-mpi.so, which is built where MPI is "
              "installed (libopenmpi-dev or libmpich-dev): " +
                  why);
}

}  // namespace oort
