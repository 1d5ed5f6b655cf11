// SPDX-License-Identifier: MIT
#include "cuda/device.h"

#include <cuda_runtime_api.h>

#include "cuda/error.h"

namespace oort::cuda {

namespace {

/// CUDA calls a driver that is not there one that is too old.
std::string ReasonOf(cudaError_t error) {
  int version = 0;
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&version) == cudaSuccess &&
      version == 0) {
    return "no NVIDIA driver here";
  }
  return cudaGetErrorString(error);
}

}  // namespace

bool BuiltIn() { return true; }

std::vector<DeviceInfo> Devices(std::string* reason) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    *reason = ReasonOf(error);
    return {};
  }
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess) {
      *reason = ReasonOf(error);
      return {};
    }
    devices.push_back({properties.name, properties.major, properties.minor,
                       properties.multiProcessorCount, properties.totalGlobalMem});
  }
  return devices;
}

int MultiprocessorCount(int device) {
  int count = 0;
  Check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "the number of multiprocessors");
  return count;
}

std::string UuidOf(int device) {
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, device), "asking for the name of a GPU");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : properties.uuid.bytes) {
    const auto bits = static_cast<unsigned char>(byte);
    text += kDigits[bits >> 4];
    text += kDigits[bits & 15];
  }
  return text;
}

}  // namespace oort::cuda
