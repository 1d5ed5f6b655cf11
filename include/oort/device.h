// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace oort {

enum class DeviceType : unsigned char { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  static Device Cpu() { return {}; }
  static Device Cuda(int index) { return {DeviceType::kCuda, index}; }
  std::string ToString() const;  ///< "cpu", "cuda:0"
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace oort
