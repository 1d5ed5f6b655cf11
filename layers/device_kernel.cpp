// SPDX-License-Identifier: MIT
#include "layers/device_kernel.h"

#include <algorithm>

namespace oort {

void RequireFloatsOnDevice(const LayerInit& init) {
  if (init.device().type == DeviceType::kCpu || init.inputs().empty()) return;
  const DType dtype = init.inputs()[0]->dtype;
  if (dtype == DType::kNull || IsFloat(dtype)) return;
  throw Error(ErrorCode::kUnsupported, "is of " + std::string(Name(dtype)));
}

void RequireWideFloat(DType dtype) {
  if (dtype == DType::kNull || dtype == DType::kF32 || dtype == DType::kF64) return;
  throw Error(ErrorCode::kUnsupported, "is of " + std::string(Name(dtype)));
}

namespace {

/// What only passes make is asked for by Has before it is made, and a layer with weights must have
/// been written to upload them: such types add themselves.
bool AddsItself(const std::string& type, const OperatorSchema& schema) {
  const std::vector<ArgSpec>& args = schema.args();
  return type.starts_with("oort.") || type.starts_with("nhwc.") ||
         std::any_of(args.begin(), args.end(), [](const ArgSpec& arg) { return arg.attribute; });
}

}  // namespace
}  // namespace oort

/// All other operators are tried: their traits say whether they run on either device.
OORT_CUDA_LAYERS(device_kernel) {
  using namespace oort;
  for (const std::string& type : registry.Types()) {
    if (registry.Has(type, DeviceType::kCuda) || AddsItself(type, *registry.Schema(type))) continue;
    registry.AddDevice({type}, DeviceType::kCuda);
  }
}
