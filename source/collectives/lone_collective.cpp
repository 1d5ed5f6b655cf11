// SPDX-License-Identifier: MIT
#include "collectives/lone_collective.h"

#include <algorithm>

#include "oort/error.h"

namespace oort {
namespace {

/// Nobody waits for anybody.
class LoneDeviceGroup final : public DeviceGroup {
 public:
  bool alone() const override { return true; }
  void Gather(std::string_view, const void*, std::span<const size_t>, void*,
              DeviceStream) override {}
  void Trade(std::string_view, const void*, size_t, void*, DeviceStream) override {}
  void Look(double) override {}
};

class LoneCollective final : public Collective {
 public:
  LoneCollective(int rank, int ranks) : rank_(rank), ranks_(ranks) {
    SetOnDevice(std::make_unique<LoneDeviceGroup>());
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void SetDeadline(double) override {}

  void Exchange(std::string_view, std::span<const std::byte> mine, std::span<const size_t> sizes,
                Visit visit) override {
    // Parts may differ in size; what a larger one has more stays as the last exchange left it.
    const size_t largest = *std::ranges::max_element(sizes);
    if (handed_.size() < largest) handed_.resize(largest);
    std::ranges::copy(mine, handed_.begin());
    for (int from = 0; from < ranks_; ++from) {
      visit(from, {handed_.data(), sizes[static_cast<size_t>(from)]});
    }
  }
  void Broadcast(std::string_view, std::vector<std::byte>&, int) override {}
  void Pass(std::string_view, std::span<std::byte> bytes, int from, int) override {
    if (from != rank_) std::ranges::fill(bytes, std::byte{0});
  }
  void Fail(std::string_view) noexcept override {}

 private:
  int rank_, ranks_;
  std::vector<std::byte> handed_;
};

}  // namespace

std::unique_ptr<Collective> MakeLoneRank(int rank, int ranks) {
  if (rank < 0 || rank >= ranks) {
    throw Error(ErrorCode::kInvalidArgument, "there is no rank " + std::to_string(rank) + " of " +
                                                 std::to_string(ranks) + ": they count from 0");
  }
  return std::make_unique<LoneCollective>(rank, ranks);
}

}  // namespace oort
