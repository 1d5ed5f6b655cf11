// SPDX-License-Identifier: MIT
// Operators of NHWC images that are made of layers for any tensor.
#include "layers/device_kernel.h"

OORT_CUDA_LAYERS(layout) {
  using namespace oort;
  ShareWithCuda(registry, {"nhwc.enter", "nhwc.leave", "nhwc.ChannelShuffle", "nhwc.PixelShuffle",
                           "nhwc.PixelUnshuffle"});
  // These ask for the layer of the device themselves.
  for (const char* name : {"cat", "chunk", "split", "softmax", "log_softmax", "mean", "sum"}) {
    const std::string type = "nhwc." + std::string(name);
    registry.AddDevice({type}, DeviceType::kCuda, registry.Creator(type, DeviceType::kCpu));
  }
}
