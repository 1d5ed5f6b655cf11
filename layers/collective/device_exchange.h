// SPDX-License-Identifier: MIT
// Exchanges between ranks of what lies on their GPUs.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "layers/collective/device_sum.h"
#include "layers/collective/group_of.h"

namespace oort {

/// Whether the run that this thread is in hands numbers from GPU to GPU: without the host, so that
/// its steps can be recorded.
bool ExchangesOnDevice();

/// Bytes that SumOverRanks needs beside its operands, on the GPU.
size_t ScratchOfSum(int64_t count, int64_t ranks);
/// out = the sum of what all ranks have, in their order, and what comes behind. `out` may be
/// `mine`. All are on the GPU.
void SumOverRanks(Collective& group, DeviceGroup& gpus, std::string_view what, cuda::Stream& stream,
                  const float* mine, int64_t count, const SumEnd& end, float* scratch, float* out);

/// Does `exchange` on the host's memory: it is handed what this rank has on its GPU, and room for
/// `count` numbers, which it fills, and which are then brought to `out`.
using HostExchange = FunctionRef<void(std::span<const float> mine, std::span<float> result)>;
void ByWayOfHost(Collective& group, cuda::Stream& stream, const Tensor& mine, int64_t count,
                 HostExchange exchange, float* out);

}  // namespace oort
