// SPDX-License-Identifier: MIT
#include "cuda/kernel_launch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "cuda/error.h"

namespace oort::cuda {
namespace {

constexpr unsigned kPortableCluster = 8;
constexpr size_t kPlainShared = 48 * 1024;

/// Raises what a kernel may use to what it asks for; once for each kernel and device.
void Permit(const KernelLaunch& launch, int device) {
  struct Permitted {
    size_t shared = kPlainShared;
    bool large_clusters = false;
  };
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, Permitted> all;
  const std::lock_guard lock(mutex);
  Permitted& permitted = all[{launch.kernel, device}];
  if (launch.shared > permitted.shared) {
    Check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(launch.shared)),
          "shared memory of a convolution");
    permitted.shared = launch.shared;
  }
  if (launch.cluster > kPortableCluster && !permitted.large_clusters) {
    Check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "clusters of a convolution");
    permitted.large_clusters = true;
  }
}

DeviceTraits Ask(int device) {
  DeviceTraits traits;
  int major = 0, minor = 0;
  Check(cudaDeviceGetAttribute(&traits.multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  Check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "cudaDeviceGetAttribute");
  traits.clusters = major >= 9;
  const char* hopper = std::getenv("OORT_CUDA_HOPPER");
  const bool wanted = hopper == nullptr || std::string_view(hopper) != "0";
  traits.bulk = major == 9 && minor == 0 && wanted;
  return traits;
}

}  // namespace

const DeviceTraits& TraitsOf(int device) {
  static std::mutex mutex;
  static std::map<int, DeviceTraits> all;
  const std::lock_guard lock(mutex);
  const auto found = all.find(device);
  return found != all.end() ? found->second : all.emplace(device, Ask(device)).first->second;
}

int RegistersOf(const void* kernel) {
  static std::mutex mutex;
  static std::map<const void*, int> all;
  const std::lock_guard lock(mutex);
  const auto found = all.find(kernel);
  if (found != all.end()) return found->second;
  cudaFuncAttributes attributes = {};
  Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return all.emplace(kernel, std::max(1, attributes.numRegs)).first->second;
}

namespace {

/// How CUDA says a launch; the object holds the attributes to which the configuration points.
struct LaunchConfig {
  std::array<cudaLaunchAttribute, 2> attributes = {};
  cudaLaunchConfig_t config = {};

  LaunchConfig(const KernelLaunch& launch, int device) {
    config.gridDim = launch.blocks;
    config.blockDim = dim3(launch.threads);
    config.dynamicSmemBytes = launch.shared;
    config.attrs = attributes.data();
    if (launch.cluster > 1) {
      cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim.x = launch.cluster;
      cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    }
    if (launch.overlap && TraitsOf(device).clusters) {
      cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
      overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      overlap.val.programmaticStreamSerializationAllowed = 1;
    }
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;
};

}  // namespace

unsigned ClustersAtOnce(const KernelLaunch& launch, int device) {
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, unsigned> all;
  const std::lock_guard lock(mutex);
  const auto found = all.find({launch.kernel, device});
  if (found != all.end()) return found->second;
  const DeviceGuard guard(device);
  Permit(launch, device);
  KernelLaunch one = launch;
  one.blocks = dim3(launch.cluster);
  one.overlap = false;
  const LaunchConfig asked(one, device);
  int clusters = 0;
  Check(cudaOccupancyMaxActiveClusters(&clusters, launch.kernel, &asked.config),
        "cudaOccupancyMaxActiveClusters");
  const unsigned known = static_cast<unsigned>(std::max(1, clusters));
  return all.emplace(std::pair(launch.kernel, device), known).first->second;
}

void Launch(const Stream& stream, const KernelLaunch& launch, const void* args) {
  Permit(launch, stream.device());
  LaunchConfig whole(launch, stream.device());
  whole.config.stream = stream.get();
  void* arguments[] = {const_cast<void*>(args)};
  Check(cudaLaunchKernelExC(&whole.config, launch.kernel, arguments), "convolution");
}

}  // namespace oort::cuda
