// SPDX-License-Identifier: MIT
#include "layers/device_kernel.h"

namespace oort {
namespace {

/// Parts of a tensor that come out as one list are made on the host.
bool GivesList(const LayerInit& init) {
  if (init.op().outputs.size() != 1) return false;
  for (const char* word : {"split", "chunk", "unbind", "broadcast_tensors", "meshgrid"}) {
    if (init.type().find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

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

void ShareWithCuda(LayerRegistry& registry, const std::vector<std::string>& types) {
  for (const std::string& type : types) {
    const LayerCreator cpu = registry.Creator(type, DeviceType::kCpu);
    registry.AddDevice({type}, DeviceType::kCuda, [cpu](const LayerInit& init) {
      if (GivesList(init)) {
        throw Error(ErrorCode::kUnsupported, "gives a list, which the GPU does not");
      }
      std::unique_ptr<Layer> layer = cpu(init);
      const auto* either = dynamic_cast<const AnyDevice*>(layer.get());
      if (either == nullptr) {
        throw Error(ErrorCode::kUnsupported, "has no layer for the GPU");
      }
      either->TryOnDevice(init);
      return layer;
    });
  }
}

}  // namespace oort
