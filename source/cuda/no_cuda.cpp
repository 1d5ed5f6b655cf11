// SPDX-License-Identifier: MIT
#include "cuda/device.h"

namespace oort::cuda {

bool BuiltIn() { return false; }

std::vector<DeviceInfo> Devices(std::string* reason) {
  *reason = "this build has no CUDA";
  return {};
}

}  // namespace oort::cuda
