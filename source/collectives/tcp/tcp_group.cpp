// SPDX-License-Identifier: MIT
#include "collectives/tcp/tcp_group.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "collectives/tcp/connections.h"
#include "core/number_text.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr size_t kTcpHostBytes = 64;
constexpr size_t kMostFailure = 2048;

/// In front of everything that one rank sends to another. Its size keeps numbers behind it aligned.
struct Frame {
  enum Kind : uint32_t { kData = 0x4f444154, kFailure = 0x4f464149 };
  uint32_t kind = kData;
  uint32_t place = 0;  ///< a hash of what the numbers are for
  uint64_t turn = 0;   ///< of all that went this way
  uint64_t bytes = 0;  ///< behind it
  uint64_t unused = 0;
};
static_assert(sizeof(Frame) == 32);

/// FNV-1a: ranks that are at different places are found out.
uint32_t PlaceOf(std::string_view what) {
  uint32_t hash = 2166136261U;
  for (const char c : what) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

/// One other rank, and what of a call is still to come and to go.
struct Peer {
  int rank = -1;
  tcp::Socket socket;
  uint64_t sent = 0, received = 0;  ///< frames
  Frame out, in;
  std::span<const std::byte> sending;  ///< behind `out`
  size_t out_done = 0, in_done = 0, in_wanted = 0;
  std::vector<std::byte> buffer;  ///< a frame and what is behind it
  bool to_send = false, to_receive = false;

  bool busy() const { return to_send || to_receive; }
};

class TcpCollective final : public Collective {
 public:
  TcpCollective(const TcpOptions& options, std::vector<tcp::Socket> sockets)
      : rank_(options.rank), deadline_(options.deadline) {
    for (size_t rank = 0; rank < sockets.size(); ++rank) {
      Peer& peer = peers_.emplace_back();
      peer.rank = static_cast<int>(rank);
      peer.socket = std::move(sockets[rank]);
    }
    LearnHosts();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }
  void SetDeadline(double seconds) override { deadline_ = seconds; }
  void Poll(std::string_view what) override {
    const CallScope call(*this);
    LookAtOthers(what);
  }

  void Exchange(std::string_view what, std::span<const std::byte> mine,
                std::span<const size_t> sizes, Visit visit) override {
    const CallScope call(*this);
    if (mine.size() != sizes[static_cast<size_t>(rank_)]) {
      throw Error(ErrorCode::kInvalidArgument, std::string(what) + " has another size than said");
    }
    mine_.assign(mine.begin(), mine.end());  // a visit may overwrite it
    for (Peer& peer : peers_) {
      if (peer.rank == rank_) continue;
      Send(peer, what, mine_);
      Receive(peer, sizes[static_cast<size_t>(peer.rank)]);
    }
    Finish(what);
    for (Peer& peer : peers_) {
      if (peer.rank == rank_) {
        visit(rank_, mine_);
      } else {
        visit(peer.rank, std::span(peer.buffer).subspan(sizeof(Frame), peer.in.bytes));
      }
    }
  }

  void Broadcast(std::string_view what, std::vector<std::byte>& bytes, int root) override {
    const CallScope call(*this);
    if (root == rank_) {
      if (bytes.size() > kMostBroadcast) {
        throw Error(ErrorCode::kLimit, "a message to all ranks is larger than 1 GB");
      }
      mine_ = bytes;
      for (Peer& peer : peers_) {
        if (peer.rank != rank_) Send(peer, what, mine_);
      }
      Finish(what);
      return;
    }
    Peer& peer = peers_[static_cast<size_t>(root)];
    Receive(peer, kUnknown);
    Finish(what);
    bytes.assign(peer.buffer.begin() + sizeof(Frame), peer.buffer.end());
  }

  void Pass(std::string_view what, std::span<std::byte> bytes, int from, int to) override {
    if (from == to || (rank_ != from && rank_ != to)) return;
    const CallScope call(*this);
    if (rank_ == from) {
      Send(peers_[static_cast<size_t>(to)], what, bytes);
      return Finish(what);
    }
    Peer& peer = peers_[static_cast<size_t>(from)];
    Receive(peer, bytes.size());
    // Where ranks wait in a row for one that hangs, the one behind it is to say so, not the last.
    Finish(what, 1 + 0.15 * (to > from ? to : ranks()));
    if (!bytes.empty()) std::memcpy(bytes.data(), peer.buffer.data() + sizeof(Frame), bytes.size());
  }

  void Fail(std::string_view message) noexcept override {
    try {
      const std::scoped_lock lock(mutex_);
      if (!failure_.empty()) return;  // all know already
      failure_ = Describe(rank_) + ": " + std::string(message);
      failed_ = true;
      if (!in_call_) TellAll();
    } catch (...) {
      failed_ = true;  // without a word: there is no memory
    }
  }

 private:
  static constexpr size_t kUnknown = ~size_t{0};

  /// One call at a time, and none once the group has failed.
  class CallScope {
   public:
    explicit CallScope(TcpCollective& group) : group_(group) {
      const std::scoped_lock lock(group_.mutex_);
      if (group_.failed_) throw Error(ErrorCode::kDevice, group_.failure_);
      group_.in_call_ = true;
    }
    ~CallScope() {
      const std::scoped_lock lock(group_.mutex_);
      group_.in_call_ = false;
    }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

   private:
    TcpCollective& group_;
  };

  std::string Describe(int rank) const {
    const size_t place = static_cast<size_t>(rank);
    return RankName(rank, place < hosts_.size() ? hosts_[place] : "unknown host");
  }

  void LearnHosts() {
    std::array<std::byte, kTcpHostBytes> mine{};
    const std::string host = HostName();
    std::memcpy(mine.data(), host.data(), std::min(host.size(), kTcpHostBytes - 1));
    const std::vector<size_t> sizes(peers_.size(), kTcpHostBytes);
    std::vector<std::string> hosts;
    Exchange("the start of the ranks", mine, sizes, [&](int, std::span<const std::byte> bytes) {
      const char* text = reinterpret_cast<const char*>(bytes.data());
      hosts.emplace_back(text, strnlen(text, kTcpHostBytes));
    });
    hosts_ = std::move(hosts);
  }

  void Send(Peer& peer, std::string_view what, std::span<const std::byte> bytes) const {
    peer.out = {Frame::kData, PlaceOf(what), ++peer.sent, bytes.size(), 0};
    peer.sending = bytes;
    peer.out_done = 0;
    peer.to_send = true;
  }

  static void Receive(Peer& peer, size_t bytes) {
    peer.in_wanted = bytes;
    peer.in_done = 0;
    peer.buffer.resize(sizeof(Frame) + (bytes == kUnknown ? 0 : bytes));
    peer.to_receive = true;
  }

  /// Until all that was begun is done. It spins first, since others are not late as a rule. It
  /// waits for so many deadlines.
  void Finish(std::string_view what, double deadlines = 1) {
    constexpr auto kSpin = std::chrono::microseconds(50);
    constexpr auto kLook = std::chrono::milliseconds(20);
    const tcp::Moment start = tcp::Clock::now(), until = tcp::After(deadlines * deadline_);
    tcp::Moment awake = start + kSpin, look = start + kLook;
    while (true) {
      bool done = true, moved = false;
      for (Peer& peer : peers_) {
        if (peer.to_send) moved |= MoveOut(peer, what);
        if (peer.to_receive) moved |= MoveIn(peer, what);
        done &= !peer.busy();
      }
      if (done) return;
      if (failed_) AbandonWithWhatIsKnown();
      const tcp::Moment now = tcp::Clock::now();
      if (moved) {
        awake = now + kSpin;
        continue;
      }
      if (now < awake) continue;
      if (now >= look) {
        LookAtOthers(what);
        look = now + kLook;
      }
      if (now >= until) Late(what, deadlines * deadline_);
      Sleep(std::min(look, until));
    }
  }

  void Sleep(tcp::Moment until) {
    entries_.clear();
    for (const Peer& peer : peers_) {
      const int events = (peer.to_send ? POLLOUT : 0) | (peer.to_receive ? POLLIN : 0);
      if (events == 0) continue;
      entries_.push_back({peer.socket.descriptor(), static_cast<short>(events), 0});
    }
    poll(entries_.data(), entries_.size(), tcp::MillisecondsUntil(until));
  }

  bool MoveOut(Peer& peer, std::string_view what) {
    std::array<iovec, 2> parts;
    size_t count = 0;
    const size_t total = sizeof(Frame) + peer.sending.size();
    const auto add = [&](std::span<const std::byte> bytes, size_t begin) {
      const size_t skip = std::min(peer.out_done - std::min(peer.out_done, begin), bytes.size());
      if (skip == bytes.size()) return;
      parts[count++] = {const_cast<std::byte*>(bytes.data() + skip), bytes.size() - skip};
    };
    add(std::as_bytes(std::span(&peer.out, 1)), 0);
    add(peer.sending, sizeof(Frame));
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(peer.socket.descriptor(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS) {
        return false;
      }
      Lost(peer, what);
    }
    peer.out_done += static_cast<size_t>(sent);
    peer.to_send = peer.out_done < total;
    return sent > 0;
  }

  /// Never reads beyond the frame: the next one is for another call.
  bool MoveIn(Peer& peer, std::string_view what) {
    const ptrdiff_t got = peer.socket.ReceiveSome(std::span(peer.buffer).subspan(peer.in_done));
    if (got < 0) Lost(peer, what);
    if (got == 0) return false;
    const bool knew = peer.in_done >= sizeof(Frame);
    peer.in_done += static_cast<size_t>(got);
    if (peer.in_done < sizeof(Frame)) return true;
    if (!knew) {
      std::memcpy(&peer.in, peer.buffer.data(), sizeof(Frame));
      CheckFrame(peer, what);
    }
    Grow(peer);
    peer.to_receive = peer.in_done < sizeof(Frame) + peer.in.bytes;
    return true;
  }

  /// Of a message of unknown size, memory comes with its bytes, not with what its frame says.
  static void Grow(Peer& peer) {
    constexpr size_t kStep = size_t{1} << 20;
    const size_t total = sizeof(Frame) + static_cast<size_t>(peer.in.bytes);
    if (peer.buffer.size() < total && peer.in_done == peer.buffer.size()) {
      peer.buffer.resize(std::min(total, peer.buffer.size() + kStep));
    }
  }

  void CheckFrame(Peer& peer, std::string_view what) {
    const Frame& frame = peer.in;
    if (frame.kind == Frame::kFailure) TakeFailure(peer);
    const bool known = peer.in_wanted != kUnknown;
    const bool fits = known ? frame.bytes == peer.in_wanted : frame.bytes <= kMostBroadcast;
    if (frame.kind != Frame::kData || frame.turn != ++peer.received ||
        frame.place != PlaceOf(what) || !fits) {
      Abandon(Describe(peer.rank) + " is at another exchange than " + std::string(what) +
              ", where " + Describe(rank_) + " is: they do not compute the same model");
    }
  }

  /// What is left of its text is on the way.
  [[noreturn]] void TakeFailure(Peer& peer) {
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(peer.in.bytes, kMostFailure));
    const size_t have = std::min(peer.in_done - sizeof(Frame), bytes);
    std::string text(bytes, '\0');
    std::memcpy(text.data(), peer.buffer.data() + sizeof(Frame), have);
    peer.socket.ReceiveAll(std::as_writable_bytes(std::span(text)).subspan(have), tcp::After(1));
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    Abandon(text.empty() ? Describe(peer.rank) + " has failed without a word" : text);
  }

  /// Ranks from which nothing is awaited may have failed as well.
  void LookAtOthers(std::string_view what) {
    for (Peer& peer : peers_) {
      if (peer.rank == rank_ || peer.to_receive) continue;
      Frame frame;
      const ssize_t seen =
          recv(peer.socket.descriptor(), &frame, sizeof(frame), MSG_PEEK | MSG_DONTWAIT);
      if (seen == 0 || (seen < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        Lost(peer, what);
      }
      if (seen == static_cast<ssize_t>(sizeof(frame)) && frame.kind == Frame::kFailure) {
        ReadFailure(peer);
      }
    }
  }

  [[noreturn]] void ReadFailure(Peer& peer) {
    peer.buffer.resize(sizeof(Frame));
    peer.socket.ReceiveAll(peer.buffer, tcp::After(1));
    std::memcpy(&peer.in, peer.buffer.data(), sizeof(Frame));
    peer.in_done = sizeof(Frame);
    TakeFailure(peer);
  }

  [[noreturn]] void Lost(Peer& peer, std::string_view what) {
    // It may have said why before it left, where nobody has read yet.
    Frame frame;
    const bool fresh = !peer.to_receive || peer.in_done == 0;
    if (fresh && recv(peer.socket.descriptor(), &frame, sizeof(frame), MSG_PEEK | MSG_DONTWAIT) ==
                     static_cast<ssize_t>(sizeof(frame))) {
      if (frame.kind == Frame::kFailure) ReadFailure(peer);
    }
    Abandon(Describe(peer.rank) + " has ended its connection to " + Describe(rank_) + " in " +
            std::string(what) + ": it has died or was ended; look for what it says");
  }

  [[noreturn]] void Late(std::string_view what, double waited) {
    std::string missing;
    for (const Peer& peer : peers_) {
      if (peer.busy()) missing += (missing.empty() ? "" : " and ") + Describe(peer.rank);
    }
    Abandon(Describe(rank_) + " waited " + FormatFloat(waited) + " s in " + std::string(what) +
            " for " + missing + ", which hangs, has died or is too slow: look for what it says, " +
            "or give it a longer deadline");
  }

  [[noreturn]] void AbandonWithWhatIsKnown() {
    std::string failure;
    {
      const std::scoped_lock lock(mutex_);
      failure = failure_;
      TellAll();
    }
    throw Error(ErrorCode::kDevice, failure);
  }

  /// Ends the group on all ranks.
  [[noreturn]] void Abandon(const std::string& message) {
    const std::scoped_lock lock(mutex_);
    if (failure_.empty()) {
      failure_ = message;
      failed_ = true;
      TellAll();
    }
    throw Error(ErrorCode::kDevice, failure_);
  }

  /// A rank to which a part of a frame has gone hears it by the end of its connection.
  void TellAll() {
    const size_t bytes = std::min(failure_.size(), kMostFailure);
    std::vector<std::byte> message(sizeof(Frame) + bytes);
    const Frame frame{Frame::kFailure, 0, 0, bytes, 0};
    std::memcpy(message.data(), &frame, sizeof(frame));
    std::memcpy(message.data() + sizeof(frame), failure_.data(), bytes);
    const tcp::Moment until = tcp::After(1);
    for (Peer& peer : peers_) {
      if (peer.rank == rank_ || (peer.to_send && peer.out_done > 0)) continue;
      peer.socket.SendAll(message, until);
    }
  }

  int rank_;
  double deadline_;
  std::vector<Peer> peers_;  // one for each rank; that of this one is idle
  std::vector<std::string> hosts_;
  std::vector<std::byte> mine_;
  std::vector<pollfd> entries_;
  std::mutex mutex_;
  std::string failure_;
  std::atomic<bool> failed_ = false;
  bool in_call_ = false;
};

}  // namespace

std::unique_ptr<Collective> JoinTcp(const TcpOptions& options) {
  return std::make_unique<TcpCollective>(options, tcp::ConnectRanks(options));
}

}  // namespace oort
