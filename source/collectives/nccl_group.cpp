// SPDX-License-Identifier: MIT
#include "collectives/nccl_group.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/patience.h"
#include "core/guard.h"
#include "core/number_text.h"
#include "oort/error.h"
#include "oort/log.h"

namespace oort {
namespace {

using ErrorText = std::array<char, 1024>;

/// How long a GPU may take to leave what was ended, and a group to be let go of.
constexpr double kParting = 5;

/// Work on a thread that is left alone where it does not come to its end.
class Errand {
 public:
  explicit Errand(std::function<void()> work) {
    std::thread([state = state_, run = std::move(work)] {
      try {
        Guarded([&] { run(); });
      } catch (...) {
        state->problem = std::current_exception();
      }
      state->done.store(true, std::memory_order_release);
    }).detach();
  }
  bool done() const { return state_->done.load(std::memory_order_acquire); }
  bool Finish(double seconds) const {
    Patience patience(seconds);
    while (!done()) {
      if (!patience.Wait()) return false;
    }
    return true;
  }
  void Rethrow() const {
    if (state_->problem) std::rethrow_exception(state_->problem);
  }

 private:
  struct State {
    std::atomic<bool> done = false;
    std::exception_ptr problem;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(const OortDeviceTransport& transport, void* members, double deadline)
      : transport_(transport), members_(members), deadline_(deadline) {}
  ~NcclGroup() override {
    if (members_ == nullptr) return;
    const Errand close(
        [transport = &transport_, members = members_] { transport->close(members); });
    close.Finish(kParting);
  }

  /// Through which ranks tell each other that they have failed.
  void Attach(Collective& group) { group_ = &group; }

  void Gather(std::string_view what, const void* mine, std::span<const size_t> sizes, void* all,
              DeviceStream stream) override {
    ErrorText error{};
    Enqueued(what, error,
             transport_.gather(Members(what), mine, all, sizes.data(), stream, error.data(),
                               error.size()));
  }
  void Trade(std::string_view what, const void* mine, size_t bytes, void* all,
             DeviceStream stream) override {
    ErrorText error{};
    Enqueued(what, error,
             transport_.trade(Members(what), mine, all, bytes, stream, error.data(), error.size()));
  }

  void Look(double waited) override {
    if (members_ == nullptr) {
      // What it waits for has been ended, and is about to leave the GPU.
      if (std::chrono::duration<double>(Clock::now() - ended_).count() < kParting) return;
      throw Error(ErrorCode::kDevice, "the GPU does not come back from an exchange that was ended");
    }
    try {
      if (group_ != nullptr) group_->Poll(last_);
    } catch (...) {
      End();
      throw;
    }
    ErrorText error{};
    if (transport_.check(members_, error.data(), error.size()) != 0) {
      Abandon(std::string(transport_.name) + " failed in or before " + last_ + ": " + error.data());
    }
    if (waited < deadline_) return;
    Abandon("waited " + FormatFloat(deadline_) + " s for its GPU, whose last exchange was " +
            last_ +
            ": the GPU of another rank hangs, has died or is too slow: look for what it says, or "
            "give it a longer deadline");
  }

 private:
  using Clock = std::chrono::steady_clock;

  void* Members(std::string_view what) {
    last_ = what;
    if (members_ == nullptr) {
      throw Error(ErrorCode::kDevice,
                  "the exchanges between GPUs have ended: load the model again");
    }
    return members_;
  }

  void Enqueued(std::string_view what, const ErrorText& error, int code) {
    if (code == 0) return;
    Abandon(std::string(transport_.name) + " refused " + std::string(what) + ": " + error.data());
  }

  /// What this rank has enqueued leaves its GPU. Recordings of it live as long as who made them,
  /// and the group is gone after these.
  void End() {
    ended_ = Clock::now();
    const Errand farewell(
        [transport = &transport_, members = members_] { transport->break_off(members); });
    members_ = nullptr;
  }

  [[noreturn]] void Abandon(const std::string& message) {
    End();
    if (group_ == nullptr) throw Error(ErrorCode::kDevice, message);
    group_->Fail(message);
    throw Error(ErrorCode::kDevice, RankName(group_->rank(), HostName()) + ": " + message);
  }

  Collective* group_ = nullptr;
  const OortDeviceTransport& transport_;
  void* members_;  ///< null once it has ended
  double deadline_;
  std::string last_ = "the start of the ranks";
  Clock::time_point ended_;
};

/// What ranks tell each other before they choose.
struct Told {
  int32_t able = 0, release = 0;
  std::array<char, 64> gpu{}, host{};
  std::array<char, 512> problem{};
};

template <size_t kSize>
void Put(std::string_view text, std::array<char, kSize>& to) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), kSize - 1));
}

template <size_t kSize>
std::string Get(const std::array<char, kSize>& from) {
  return {from.data(), strnlen(from.data(), kSize)};
}

std::vector<Told> TellAll(Collective& group, const NcclPlace& place) {
  Told mine;
  mine.able = place.transport != nullptr ? 1 : 0;
  mine.release = place.release;
  Put(place.gpu, mine.gpu);
  Put(HostName(), mine.host);
  Put(place.problem, mine.problem);
  std::vector<Told> all;
  const std::vector<size_t> sizes(static_cast<size_t>(group.ranks()), sizeof(Told));
  group.Exchange("the choice of NCCL", std::as_bytes(std::span(&mine, 1)), sizes,
                 [&](int, std::span<const std::byte> bytes) {
                   std::memcpy(&all.emplace_back(), bytes.data(), sizeof(Told));
                 });
  return all;
}

/// From 2.30 on NCCL lets ranks share a GPU where it is told to.
bool MayShareGpu(const std::vector<Told>& all) {
  const char* told = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return told != nullptr && std::string_view(told) == "1" &&
         std::ranges::all_of(all, [](const Told& one) { return one.release >= 23000; });
}

/// Why NCCL cannot be taken, the same on all ranks; empty where it can.
std::string ReasonAgainst(const std::vector<Told>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].able != 0) continue;
    return RankName(static_cast<int>(rank), Get(all[rank].host)) +
           " cannot use NCCL: " + Get(all[rank].problem);
  }
  if (MayShareGpu(all)) return {};
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      if (Get(all[rank].gpu) != Get(all[other].gpu)) continue;
      return "ranks " + std::to_string(other) + " and " + std::to_string(rank) +
             " are on one GPU of " + Get(all[rank].host) +
             ", which NCCL refuses: give each a GPU of its own, or exchange by way of the host";
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<DeviceGroup> JoinNccl(Collective& group, const NcclPlace& place, bool required,
                                      double loading, double deadline) {
  if (const std::string reason = ReasonAgainst(TellAll(group, place)); !reason.empty()) {
    if (required) throw Error(ErrorCode::kUnsupported, reason);
    if (group.rank() == 0) {
      log::Write(log::Level::kInfo, "ranks exchange by way of the host's memory: " + reason);
    }
    return nullptr;
  }
  const OortDeviceTransport& transport = *place.transport;
  std::vector<std::byte> id(OORT_DEVICE_ID_BYTES);
  ErrorText error{};
  if (group.rank() == 0 && transport.make_id(id.data(), error.data(), error.size()) != 0) {
    const std::string message = std::string(transport.name) + " does not start: " + error.data();
    group.Fail(message);
    throw Error(ErrorCode::kDevice, message);
  }
  group.Broadcast("the start of NCCL", id, 0);
  if (id.size() != OORT_DEVICE_ID_BYTES) {
    throw Error(ErrorCode::kDevice, "rank 0 has started NCCL with an id of another size");
  }
  // The thread may outlive this call, where others never come: it has all that it needs.
  struct Meeting {
    std::unique_ptr<NcclGroup> made;
  };
  const auto meeting = std::make_shared<Meeting>();
  const Errand join([meeting, place, id, rank = group.rank(), ranks = group.ranks(), deadline] {
    place.on_gpu([&] {
      ErrorText problem{};
      const OortDeviceTransport& opened = *place.transport;
      void* const members = opened.open(id.data(), rank, ranks, problem.data(), problem.size());
      if (members == nullptr) {
        throw Error(ErrorCode::kDevice,
                    std::string(opened.name) + " does not connect the GPUs: " + problem.data());
      }
      auto made = std::make_unique<NcclGroup>(opened, members, deadline);
      if (place.warm_up) place.warm_up(*made);
      meeting->made = std::move(made);
    });
  });
  try {
    Patience patience(loading);
    while (!join.done()) {
      group.Poll("the start of NCCL");
      if (patience.Wait()) continue;
      throw Error(ErrorCode::kDevice, "waited " + FormatFloat(loading) +
                                          " s for NCCL to connect the GPUs of all ranks");
    }
    join.Rethrow();
  } catch (const Error& problem) {
    group.Fail(problem.what());
    throw;
  }
  meeting->made->Attach(group);
  return std::move(meeting->made);
}

}  // namespace oort
