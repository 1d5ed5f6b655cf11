// SPDX-License-Identifier: MIT
// Operators of channels-last images that are made of layers for any tensor.
#include "layers/device_kernel.h"

OORT_CUDA_LAYERS(layout) {
  using namespace oort;
  ShareWithCuda(registry,
                {"channels_last.enter", "channels_last.leave", "channels_last.ChannelShuffle",
                 "channels_last.PixelShuffle", "channels_last.PixelUnshuffle"});
  // These ask for the layer of the device themselves.
  for (const char* name : {"cat", "chunk", "split", "softmax", "log_softmax", "mean", "sum"}) {
    const std::string type = "channels_last." + std::string(name);
    registry.AddDevice({type}, DeviceType::kCuda, registry.Creator(type, DeviceType::kCpu));
  }
}
