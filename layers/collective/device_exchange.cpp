// SPDX-License-Identifier: MIT
#include "layers/collective/device_exchange.h"

#include <algorithm>

#include "core/checked.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace oort {
namespace {

/// Up to so many bytes from all ranks together, each of them adds up all numbers: that is one
/// exchange. Of more, each adds up its part, and a second one hands the sums around: then a rank
/// receives two parts of what it would have received.
constexpr int64_t kMostGathered = int64_t{1} << 20;

bool AddsAllItself(int64_t count, int64_t ranks) {
  return count % ranks != 0 || count <= kMostGathered / static_cast<int64_t>(sizeof(float)) / ranks;
}

std::span<float> PinnedFloats(std::shared_ptr<Buffer>& buffer, int64_t count) {
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(float);
  if (!buffer || buffer->size() < bytes) {
    buffer.reset();
    buffer = cuda::AllocatePinned(bytes);
  }
  return {reinterpret_cast<float*>(buffer->data()), static_cast<size_t>(count)};
}

}  // namespace

bool ExchangesOnDevice() {
  Collective* const group = GroupScope::Current();
  return group != nullptr && group->on_device() != nullptr;
}

size_t ScratchOfSum(int64_t count, int64_t ranks) {
  const int64_t floats = AddsAllItself(count, ranks) ? CheckedMultiply(count, ranks) : count;
  return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
}

void SumOverRanks(Collective& group, DeviceGroup& gpus, std::string_view what, cuda::Stream& stream,
                  const float* mine, int64_t count, const SumEnd& end, float* scratch, float* out) {
  const int ranks = group.ranks();
  if (count == 0) return;
  if (gpus.alone()) return SumOnDevice(stream, {mine, ranks, 0, 0, count}, end, out);
  const auto sizes = [&](int64_t floats) {
    return std::vector<size_t>(static_cast<size_t>(ranks),
                               static_cast<size_t>(floats) * sizeof(float));
  };
  if (AddsAllItself(count, ranks)) {
    gpus.Gather(what, mine, sizes(count), scratch, stream.get());
    return SumOnDevice(stream, {scratch, ranks, count, 0, count}, end, out);
  }
  const int64_t part = count / ranks, first = part * group.rank();
  gpus.Trade(what, mine, static_cast<size_t>(part) * sizeof(float), scratch, stream.get());
  SumOnDevice(stream, {scratch, ranks, part, first, part}, end, out);
  gpus.Gather(what, out + first, sizes(part), out, stream.get());
}

void ByWayOfHost(Collective& group, cuda::Stream& stream, const Tensor& mine, int64_t count,
                 HostExchange exchange, float* out) {
  const std::span<float> from = PinnedFloats(group.staging(0), mine.elements());
  stream.CopyToHost(from.data(), mine.raw(), mine.bytes());
  stream.Synchronize();  // what the exchange before this one brought to the GPU is there, too
  const std::span<float> result = PinnedFloats(group.staging(1), count);
  exchange(from, result);
  stream.CopyToDevice(out, result.data(), result.size_bytes());
}

}  // namespace oort
