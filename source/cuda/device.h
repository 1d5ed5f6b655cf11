// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace oort::cuda {

struct DeviceInfo {
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  size_t total_memory = 0;
};

/// Whether the library was built with CUDA.
bool BuiltIn();
/// The GPUs of this machine; empty, with a reason, where there is none or no driver.
std::vector<DeviceInfo> Devices(std::string* reason);
/// Of one of them, in a build with CUDA.
int MultiprocessorCount(int device);
/// What no other GPU is called, here or on another machine.
std::string UuidOf(int device);

}  // namespace oort::cuda
