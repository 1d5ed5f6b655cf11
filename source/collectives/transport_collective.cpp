// SPDX-License-Identifier: MIT
#include "collectives/transport_collective.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "collectives/patience.h"
#include "core/number_text.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr size_t kHostBytes = 64;
/// Broadcasts up to this take one message; most do.
constexpr size_t kInlineBytes = 4096 - sizeof(uint64_t);

/// What opening a transport gives.
struct Opening {
  int code = 0, rank = 0, ranks = 1;
  std::array<char, 512> error{};
};

/// Opening waits for all ranks, for ever where one of them hangs. So it has a thread of its own,
/// which is left alone with what it needs where it does not come back.
Opening Open(const OortTransport& transport, const std::shared_ptr<void>& keep, double join) {
  struct State {
    std::promise<Opening> result;
    std::shared_ptr<void> keep;
  };
  const auto state = std::make_shared<State>();
  state->keep = keep;
  std::future<Opening> result = state->result.get_future();
  std::thread([state, &transport] {
    Opening opened;
    opened.code =
        transport.open(&opened.rank, &opened.ranks, opened.error.data(), opened.error.size());
    state->result.set_value(opened);
  }).detach();
  if (result.wait_for(std::chrono::duration<double>(join)) != std::future_status::ready) {
    throw Error(ErrorCode::kDevice, std::string(transport.name) + ": not all ranks came within " +
                                        FormatFloat(join) +
                                        " s: one of them hangs or was stopped; look for what it "
                                        "says, or give it a longer deadline");
  }
  return result.get();
}

class TransportCollective final : public Collective {
 public:
  TransportCollective(const OortTransport& transport, std::shared_ptr<void> keep, double deadline,
                      double join)
      : keep_(std::move(keep)), transport_(transport), deadline_(deadline) {
    const Opening opened = Open(transport_, keep_, join);
    if (opened.code != 0) {
      throw Error(ErrorCode::kDevice, std::string(transport_.name) + ": " + opened.error.data());
    }
    rank_ = opened.rank;
    ranks_ = opened.ranks;
    if (ranks_ < 1 || rank_ < 0 || rank_ >= ranks_) {
      throw Error(ErrorCode::kDevice, std::string(transport_.name) + " gave no place in a group");
    }
    LearnHosts();
  }
  ~TransportCollective() override { transport_.close(failure_.empty() ? 1 : 0); }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void SetDeadline(double seconds) override { deadline_ = seconds; }
  void Poll(std::string_view) override {
    Begin();
    PollFailure();
  }

  void Exchange(std::string_view what, std::span<const std::byte> mine,
                std::span<const size_t> sizes, Visit visit) override {
    Begin();
    sizes_.clear();
    offsets_.clear();
    size_t total = 0;
    // Behind each part stands the number of the exchange and the bytes of the part: ranks that are
    // at different places are found out.
    for (const size_t size : sizes) {
      sizes_.push_back(size + sizeof(Mark));
      offsets_.push_back(total);
      total += (sizes_.back() + 63) / 64 * 64;
    }
    if (mine.size() != sizes[static_cast<size_t>(rank_)]) {
      throw Error(ErrorCode::kInvalidArgument, std::string(what) + " has another size than said");
    }
    all_.resize(total);
    mine_.assign(mine.begin(), mine.end());
    const Mark mark{++turn_, mine.size()};
    mine_.resize(mine.size() + sizeof(Mark));
    std::memcpy(mine_.data() + mine.size(), &mark, sizeof(Mark));
    Started(what, transport_.start_gather(mine_.data(), mine_.size(), all_.data(), sizes_.data(),
                                          offsets_.data()));
    Finish(what);
    for (int from = 0; from < ranks_; ++from) {
      const size_t place = static_cast<size_t>(from);
      Mark theirs;
      std::memcpy(&theirs, all_.data() + offsets_[place] + sizes[place], sizeof(Mark));
      if (theirs.turn != turn_ || theirs.bytes != sizes[place]) {
        Abandon(Describe(from) + " is at another exchange than " + std::string(what) +
                ": they do not compute the same model");
      }
      visit(from, {all_.data() + offsets_[place], sizes[place]});
    }
  }

  void Broadcast(std::string_view what, std::vector<std::byte>& bytes, int root) override {
    Begin();
    if (bytes.size() > kMostBroadcast) {
      throw Error(ErrorCode::kLimit, "a message to all ranks is larger than 1 GB");
    }
    mine_.assign(sizeof(uint64_t) + kInlineBytes, std::byte{0});
    uint64_t size = bytes.size();
    const size_t first = std::min<size_t>(bytes.size(), kInlineBytes);
    if (root == rank_) {
      std::memcpy(mine_.data(), &size, sizeof(size));
      if (first > 0) std::memcpy(mine_.data() + sizeof(size), bytes.data(), first);
    }
    Started(what, transport_.start_broadcast(mine_.data(), mine_.size(), root));
    Finish(what);
    std::memcpy(&size, mine_.data(), sizeof(size));
    if (size > kMostBroadcast) Abandon(Describe(root) + " sent a message that makes no sense");
    if (root != rank_) {
      bytes.resize(static_cast<size_t>(size));
      const size_t inlined = std::min<size_t>(bytes.size(), kInlineBytes);
      if (inlined > 0) std::memcpy(bytes.data(), mine_.data() + sizeof(size), inlined);
    }
    if (size <= kInlineBytes) return;
    Started(what, transport_.start_broadcast(bytes.data() + kInlineBytes,
                                             static_cast<size_t>(size) - kInlineBytes, root));
    Finish(what);
  }

  void Pass(std::string_view what, std::span<std::byte> bytes, int from, int to) override {
    if (from == to || (rank_ != from && rank_ != to)) return;
    Begin();
    // Behind it stands how many went before it between the two, as in an exchange.
    const uint64_t turn = ++(rank_ == from ? passed_[to] : taken_[from]);
    const Mark mark{turn, bytes.size()};
    mine_.resize(bytes.size() + sizeof(Mark));
    if (rank_ == from) {
      if (!bytes.empty()) std::memcpy(mine_.data(), bytes.data(), bytes.size());
      std::memcpy(mine_.data() + bytes.size(), &mark, sizeof(Mark));
      Started(what, transport_.start_send(mine_.data(), mine_.size(), to));
      return Finish(what);
    }
    Started(what, transport_.start_receive(mine_.data(), mine_.size(), from));
    Finish(what);
    Mark theirs;
    std::memcpy(&theirs, mine_.data() + bytes.size(), sizeof(Mark));
    if (theirs.turn != turn || theirs.bytes != bytes.size()) {
      Abandon(Describe(from) + " is at another exchange than " + std::string(what) +
              ": they do not compute the same model");
    }
    if (!bytes.empty()) std::memcpy(bytes.data(), mine_.data(), bytes.size());
  }

  void Fail(std::string_view message) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) return;  // all know already
    try {
      failure_ = Describe(rank_) + ": " + std::string(message);
    } catch (...) {
      return;
    }
    transport_.send_failure(failure_.data(), failure_.size());
  }

 private:
  struct Mark {
    uint64_t turn, bytes;
  };

  std::string Describe(int rank) const {
    const size_t place = static_cast<size_t>(rank);
    return RankName(rank, place < hosts_.size() ? hosts_[place] : "unknown host");
  }

  /// For messages. It is also the first exchange, at which all processes have to come together.
  void LearnHosts() {
    std::array<std::byte, kHostBytes> mine{};
    const std::string host = HostName();
    std::memcpy(mine.data(), host.data(), std::min(host.size(), kHostBytes - 1));
    const std::vector<size_t> sizes(static_cast<size_t>(ranks_), kHostBytes);
    std::vector<std::string> hosts;
    Exchange("the start of the ranks", mine, sizes, [&](int, std::span<const std::byte> bytes) {
      hosts.emplace_back(reinterpret_cast<const char*>(bytes.data()));
    });
    hosts_ = std::move(hosts);
  }

  void Begin() {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) throw Error(ErrorCode::kDevice, failure_);
  }

  void Started(std::string_view what, int code) {
    if (code == 0) return;
    Abandon(Describe(rank_) + ": " + transport_.name + " refused " + std::string(what));
  }

  void Finish(std::string_view what) {
    Patience patience(deadline_);
    unsigned polls = 0;
    while (true) {
      const int state = transport_.test();
      if (state > 0) return;
      if (state < 0) {
        Abandon(Describe(rank_) + ": " + transport_.name + " failed in " + std::string(what));
      }
      if (++polls % 64 == 0) PollFailure();
      if (patience.Wait()) continue;
      Abandon(Describe(rank_) + " waited " + FormatFloat(deadline_) + " s in " + std::string(what) +
              " for another rank, which hangs, has died or is too slow: look for what it says, or "
              "give it a longer deadline");
    }
  }

  void PollFailure() {
    std::array<char, 2048> text{};
    int from = 0;
    if (transport_.poll_failure(&from, text.data(), text.size()) == 0) return;
    const std::scoped_lock lock(mutex_);
    if (failure_.empty()) failure_ = text.data();
    throw Error(ErrorCode::kDevice, failure_);
  }

  /// Ends the group on all ranks.
  [[noreturn]] void Abandon(const std::string& message) {
    const std::scoped_lock lock(mutex_);
    if (failure_.empty()) {
      failure_ = message;
      transport_.send_failure(failure_.data(), failure_.size());
    }
    throw Error(ErrorCode::kDevice, failure_);
  }

  std::shared_ptr<void> keep_;
  const OortTransport& transport_;
  double deadline_;
  int rank_ = 0, ranks_ = 1;
  std::vector<std::string> hosts_;
  uint64_t turn_ = 0;
  std::map<int, uint64_t> passed_, taken_;  // by the other rank
  std::vector<std::byte> mine_, all_;
  std::vector<size_t> sizes_, offsets_;
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace

std::unique_ptr<Collective> MakeTransportGroup(const OortTransport& transport,
                                               std::shared_ptr<void> keep, double deadline,
                                               double join) {
  return std::make_unique<TransportCollective>(transport, std::move(keep), deadline, join);
}

}  // namespace oort
