// SPDX-License-Identifier: MIT
// How ranks that compute one model together hand numbers to each other, whoever carries them:
// threads of one process, or processes that a plug-in connects.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/device_group.h"
#include "cuda/host/watch.h"
#include "oort/function_ref.h"
#include "oort/tensor.h"

namespace oort {

/// The place of one rank in its group. All ranks make the same calls in the same order. Nothing
/// waits forever: a rank that does not come within the deadline, or that said that it failed, ends
/// the call on all others with an Error (kDevice) that names it; so does every later call.
/// Thread contract: one thread at a time; Fail from any.
class Collective {
 public:
  using Visit = FunctionRef<void(int rank, std::span<const std::byte> bytes)>;

  Collective() = default;
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Hands `mine` to all ranks, and visits what each of them has handed over in the order of their
  /// numbers, its own among them. `sizes` are the bytes of each rank. A visit may overwrite `mine`.
  /// `what` is for messages: the operator that needs it.
  virtual void Exchange(std::string_view what, std::span<const std::byte> mine,
                        std::span<const size_t> sizes, Visit visit) = 0;
  using UseAll = FunctionRef<void(std::span<const std::span<const std::byte>> all)>;
  /// Where ranks live in one memory: `use` sees what all of them have where it lies, and may write
  /// what no other rank reads meanwhile. Nobody returns before all are done. False where they do
  /// not live so: then nothing was done.
  virtual bool Share(std::string_view /*what*/, std::span<const std::byte> /*mine*/,
                     UseAll /*use*/) {
    return false;
  }
  /// All ranks get the bytes of `root`, of any number up to kMostBroadcast.
  virtual void Broadcast(std::string_view what, std::vector<std::byte>& bytes, int root) = 0;
  /// Rank `to` gets the bytes of rank `from`, which do not wait for each other beyond that. Both
  /// know how many there are; other ranks do nothing.
  virtual void Pass(std::string_view what, std::span<std::byte> bytes, int from, int to) = 0;
  /// Tells all ranks that this one cannot go on, and why.
  virtual void Fail(std::string_view message) noexcept = 0;
  /// How long calls wait from now on, in seconds; infinity where whoever waits is told otherwise.
  virtual void SetDeadline(double seconds) = 0;
  /// Throws where the group has failed; waits for nobody. `what` is what this rank waits in.
  virtual void Poll(std::string_view /*what*/) {}

  /// values become the sums over all ranks, added in the order of their numbers: the same bits on
  /// all of them.
  void AllReduce(std::string_view what, std::span<float> values);
  /// `all` gets the numbers of all ranks one behind the other; `counts` says how many each has.
  void AllGather(std::string_view what, std::span<const float> mine, std::span<const size_t> counts,
                 std::span<float> all);
  /// Until all ranks are here.
  void Barrier(std::string_view what);

  /// How ranks that have a GPU each hand over what lies there; null: through this group, by way of
  /// the host's memory.
  DeviceGroup* on_device() const { return on_device_.get(); }
  void SetOnDevice(std::unique_ptr<DeviceGroup> group) { on_device_ = std::move(group); }
  /// Pinned memory by way of which they do so, kept from one exchange to the next.
  std::shared_ptr<Buffer>& staging(size_t which) { return staging_[which]; }

  static constexpr size_t kMostBroadcast = size_t{1} << 30;

 private:
  std::unique_ptr<DeviceGroup> on_device_;
  std::array<std::shared_ptr<Buffer>, 2> staging_;
};

/// While it lives, calls of a group wait for so long.
class DeadlineScope {
 public:
  DeadlineScope(Collective& group, double seconds, double afterwards)
      : group_(group), afterwards_(afterwards) {
    group_.SetDeadline(seconds);
  }
  ~DeadlineScope() { group_.SetDeadline(afterwards_); }
  DeadlineScope(const DeadlineScope&) = delete;
  DeadlineScope& operator=(const DeadlineScope&) = delete;

 private:
  Collective& group_;
  double afterwards_;
};

/// While it lives, operators that this thread runs exchange their numbers with these ranks, and
/// where it waits for a GPU, it looks after them.
class GroupScope {
 public:
  explicit GroupScope(Collective& group);
  ~GroupScope();
  GroupScope(const GroupScope&) = delete;
  GroupScope& operator=(const GroupScope&) = delete;
  /// That of this thread; null where it runs no rank's part.
  static Collective* Current();

 private:
  Collective* before_;
  cuda::WatchScope watch_;
};

/// "rank 2 (host)", for messages.
std::string RankName(int rank, std::string_view host);
/// The name of this machine.
std::string HostName();

}  // namespace oort
