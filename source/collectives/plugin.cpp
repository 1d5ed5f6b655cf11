// SPDX-License-Identifier: MIT
#include "collectives/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "collectives/nccl_group.h"
#include "collectives/transport_collective.h"
#include "oort/error.h"

namespace oort {
namespace {

/// How many processes the launcher says that it has started; 0 where it says nothing.
int CountIn(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}
int StartedByOpenMpi() { return CountIn("OMPI_COMM_WORLD_SIZE"); }
int StartedByOther() { return CountIn("PMI_SIZE"); }  // MPICH, and those that speak its protocol

/// That for MPICH stands beside the other where both are installed; with MPICH alone there is one.
std::vector<const char*> NamesOfPlugins() {
  if (StartedByOpenMpi() == 0 && StartedByOther() > 0)
    return {"liboort-mpich.so", "liboort-mpi.so"};
  return {"liboort-mpi.so"};
}

/// Null where it is not set, or to nothing.
const char* GivenIn(const char* variable) {
  const char* given = std::getenv(variable);
  return given != nullptr && *given != '\0' ? given : nullptr;
}

/// Beside the program, in ../lib of it, above it, where a build has its tests, and where the loader
/// looks.
std::vector<std::string> PlacesOf(const std::vector<const char*>& names) {
  std::vector<std::string> places;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* name : names) {
    if (!error) {
      const auto folder = program.parent_path();
      places.push_back((folder / name).string());
      places.push_back((folder.parent_path() / "lib" / name).string());
      places.push_back((folder.parent_path() / name).string());
    }
    places.emplace_back(name);
  }
  return places;
}

std::vector<std::string> PlacesOfMpi() {
  if (const char* given = GivenIn("OORT_MPI")) return {given};
  return PlacesOf(NamesOfPlugins());
}

/// A plug-in of another MPI than that of mpirun believes to be alone, and each process would answer
/// by itself.
std::unique_ptr<Collective> CheckedGroup(std::unique_ptr<Collective> group,
                                         const std::string& place) {
  const int started = std::max(StartedByOpenMpi(), StartedByOther());
  if (group->ranks() == 1 && started > 1) {
    throw Error(ErrorCode::kUnsupported,
                "mpirun has started " + std::to_string(started) + " processes, but the MPI of " +
                    place +
                    " sees one: it is that of another MPI; set OORT_MPI to the plug-in "
                    "that was built with this one");
  }
  return group;
}

}  // namespace

std::unique_ptr<Collective> OpenMpi(double deadline) {
  // Others follow one model, and MPI cannot be started twice in a process.
  static std::atomic<bool> opened_before = false;
  if (opened_before.exchange(true)) {
    throw Error(ErrorCode::kUnsupported, "the ranks of mpirun compute one model: load no second");
  }
  std::string why;
  for (const std::string& place : PlacesOfMpi()) {
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
    constexpr double kJoinSeconds = 60;  // as over TCP
    return CheckedGroup(
        MakeTransportGroup(*transport, nullptr, deadline, std::max(kJoinSeconds, deadline)), place);
  }
  throw Error(ErrorCode::kUnsupported,
              "ranks of mpirun need the plug-in liboort-mpi.so, which is built where MPI is "
              "installed (libopenmpi-dev or libmpich-dev): " +
                  why);
}

namespace {

NcclPlace OpenNccl() {
  NcclPlace place;
  for (const std::string& file : PlacesOf({"liboort-nccl.so"})) {
    void* const opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
    if (opened == nullptr) {
      const char* text = dlerror();
      place.problem =
          "there is no plug-in liboort-nccl.so, which is built where nccl.h is found: " +
          (text != nullptr ? std::string(text) : file);
      continue;
    }
    const auto function = reinterpret_cast<OortDeviceTransportFunction>(
        dlsym(opened, OORT_DEVICE_TRANSPORT_FUNCTION));
    const OortDeviceTransport* transport = function != nullptr ? function() : nullptr;
    if (transport == nullptr || transport->version != OORT_DEVICE_TRANSPORT_VERSION) {
      place.problem = file + " is no plug-in for this version of Oort";
      return place;
    }
    std::array<char, 512> error{};
    if (transport->load(GivenIn("OORT_NCCL"), &place.release, error.data(), error.size()) != 0) {
      place.problem = "there is no NCCL: " + std::string(error.data()) +
                      "; the environment variable OORT_NCCL may name the file libnccl.so.2";
      return place;
    }
    place.transport = transport;
    place.problem.clear();
    return place;
  }
  return place;
}

}  // namespace

void FindNccl(NcclPlace& place) {
  static const NcclPlace found = OpenNccl();  // ranks that are threads ask for it together
  place.transport = found.transport;
  place.release = found.release;
  place.problem = found.problem;
}

}  // namespace oort
