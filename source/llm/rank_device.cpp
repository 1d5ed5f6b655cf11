// SPDX-License-Identifier: MIT
#include "llm/rank_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/nccl_group.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace oort {
namespace {

/// What processes tell each other to find out who shares a machine, and who computes on what.
struct Home {
  std::array<char, 128> host{};
  int32_t type = 0;
};

/// How many ranks with a lower number are on this machine.
int RankOnThisMachine(RankGroup& group, const LanguageModelOptions& options) {
  Collective& all = group.collective();
  if (!group.of_processes()) return all.rank();
  const DeadlineScope patient(all, kLoadingDeadline, options.ranks.deadline);
  const Device device = options.device;
  Home mine;
  const std::string host = HostName();
  std::memcpy(mine.host.data(), host.data(), std::min(host.size(), mine.host.size() - 1));
  mine.type = static_cast<int32_t>(device.type);
  int before = 0, other_kind = -1;
  const std::vector<size_t> sizes(static_cast<size_t>(all.ranks()), sizeof(Home));
  all.Exchange("the places of the ranks", std::as_bytes(std::span(&mine, 1)), sizes,
               [&](int rank, std::span<const std::byte> bytes) {
                 Home home;
                 std::memcpy(&home, bytes.data(), sizeof(home));
                 if (home.type != mine.type) other_kind = rank;
                 if (rank < all.rank() && home.host == mine.host) ++before;
               });
  if (other_kind >= 0) {
    throw Error(ErrorCode::kInvalidArgument, "rank " + std::to_string(all.rank()) + " is on " +
                                                 device.ToString() + ", and rank " +
                                                 std::to_string(other_kind) +
                                                 " is not: give all ranks GPUs, or none");
  }
  return before;
}

/// Both ways of exchanging, in sizes for which a library may take other connections.
void WarmUp(DeviceGroup& group, int device, int ranks) {
  const cuda::DeviceGuard guard(device);
  cuda::Stream stream(device);
  const size_t most = size_t{1} << 22;
  const size_t total = most * static_cast<size_t>(ranks);
  const std::shared_ptr<Buffer> mine = cuda::AllocateDevice(total, stream);
  const std::shared_ptr<Buffer> all = cuda::AllocateDevice(total, stream);
  stream.Fill(mine->data(), 0, total);
  std::vector<size_t> uneven(static_cast<size_t>(ranks), 256);
  uneven[0] = 512;
  for (const size_t bytes : {size_t{1} << 14, size_t{1} << 18, most}) {
    const std::vector<size_t> sizes(static_cast<size_t>(ranks), bytes);
    group.Gather("a trial", mine->data(), sizes, all->data(), stream.get());
    group.Trade("a trial", mine->data(), bytes, all->data(), stream.get());
  }
  group.Gather("a trial", mine->data(), uneven, all->data(), stream.get());
  stream.Synchronize();
}

}  // namespace

Device DeviceOfRank(const LanguageModelOptions& options, RankGroup& group) {
  const int place = RankOnThisMachine(group, options);
  if (options.device.type == DeviceType::kCpu || group.lone()) return options.device;
  if (!options.ranks.spread) return options.device;
  std::string reason;
  const int count = static_cast<int>(cuda::Devices(&reason).size());
  if (count == 0) return options.device;  // who loads there says why
  return Device::Cuda((options.device.index + place) % count);
}

void ConnectGpus(Collective& group, const LanguageModelOptions& options) {
  const RankOptions& ranks = options.ranks;
  const bool by_host = ranks.exchange == RankOptions::Exchange::kHost;
  // A rank alone exchanges nothing.
  if (options.device.type == DeviceType::kCpu || group.on_device() != nullptr) return;
  // Layers in turn hand over one row a token, by way of the host in any case.
  if (by_host || ranks.pipeline || !cuda::BuiltIn()) return;
  NcclPlace place;
  FindNccl(place);
  const int device = options.device.index;
  place.gpu = cuda::UuidOf(device);
  place.on_gpu = [device](const std::function<void()>& body) {
    const cuda::DeviceGuard guard(device);
    body();
  };
  place.warm_up = [device, count = group.ranks()](DeviceGroup& gpus) {
    WarmUp(gpus, device, count);
  };
  const bool required = ranks.exchange == RankOptions::Exchange::kNccl;
  group.SetOnDevice(JoinNccl(group, place, required, kLoadingDeadline, ranks.deadline));
}

}  // namespace oort
