// SPDX-License-Identifier: MIT
// All layers that run on either device and have no weights: found by what they are made of.
#include "layers/device_kernel.h"

namespace oort {
namespace {

bool HasWeights(const OperatorSchema& schema) {
  for (const ArgSpec& arg : schema.args()) {
    if (arg.attribute) return true;
  }
  return false;
}

/// What only passes make is asked for by name before it is made, so it must be there for sure.
bool MadeByPasses(const std::string& type) {
  return type.starts_with("oort.") || type.starts_with("nhwc.");
}

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(any_device) {
  using namespace oort;
  std::vector<std::string> types;
  for (const std::string& type : registry.Types()) {
    const bool known = static_cast<bool>(registry.Creator(type, DeviceType::kCuda));
    if (!known && !MadeByPasses(type) && !HasWeights(*registry.Schema(type))) types.push_back(type);
  }
  ShareWithCuda(registry, types);
}
