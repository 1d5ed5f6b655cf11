// SPDX-License-Identifier: MIT
#include "collectives/local_collective.h"

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "collectives/patience.h"
#include "core/number_text.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr size_t kLine = 64;
/// Processors fetch lines in pairs.
constexpr size_t kLines = 2 * kLine;

/// Ranks that are at different places are found out.
uint64_t PlaceOf(std::string_view what) {
  uint64_t hash = what.size();
  const auto mix = [&hash](uint64_t word) { hash = (hash ^ word) * 0x9E3779B97F4A7C15; };
  for (; what.size() >= sizeof(uint64_t); what.remove_prefix(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, what.data(), sizeof(word));
    mix(word ^ hash >> 32);
  }
  for (const char c : what) mix(static_cast<unsigned char>(c));
  return hash;
}

/// What a rank hands over. There are two, in turns: a rank that writes its third has seen the
/// second of all others, so they are done with its first.
struct alignas(kLines) Handed {
  uint64_t place = 0;                   ///< of what it is for
  std::span<const std::byte> bytes;     ///< a copy, in `storage`
  std::span<const std::byte> lent;      ///< of Share: it stays where it is
  std::vector<std::byte> storage = {};  ///< grows alone
  std::string what = {};                ///< for messages: others read it after a failure alone

  void Copy(std::span<const std::byte> from) {
    if (storage.size() < from.size() + kLines) storage.resize(from.size() + kLines);
    if (!from.empty()) std::memcpy(Begin(), from.data(), from.size());
    bytes = {Begin(), from.size()};
  }
  /// Others have read it: its lines are theirs, too, until they are asked back, one after the other
  /// when they are written. This asks for all of them at once, while something else is computed.
  void AskBack() {
    constexpr size_t kMostLines = 64;
    const size_t end = std::min(bytes.size(), kMostLines * kLine);
    for (size_t at = 0; at < end; at += kLine) __builtin_prefetch(Begin() + at, 1);
  }

 private:
  std::byte* Begin() {
    const size_t rest = reinterpret_cast<uintptr_t>(storage.data()) % kLines;
    return storage.data() + (rest == 0 ? 0 : kLines - rest);
  }
};

/// Others look at `turn` again and again while this rank writes the rest: that is on other lines.
struct LocalRank {
  alignas(kLines) std::atomic<uint64_t> turn = 0;  ///< of the last that it has handed over
  std::array<Handed, 2> handed;
};

/// What ranks pass to one of the others, which takes it later.
struct Letter {
  std::vector<std::byte> bytes;
  std::string what;
};

struct LocalMail {
  std::mutex mutex;
  std::deque<Letter> letters;
};

struct LocalGroup {
  std::vector<LocalRank> members;
  std::map<std::pair<int, int>, LocalMail> mail;  ///< by who sends and who receives
  std::atomic<bool> failed = false;
  std::atomic<int> readers = 0;  ///< ranks that look at what others have lent
  std::mutex mutex;
  std::string failure;  ///< the first one

  explicit LocalGroup(int ranks) : members(static_cast<size_t>(ranks)) {
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) mail.try_emplace({from, to});
    }
  }

  void Fail(std::string message) {
    const std::scoped_lock lock(mutex);
    if (failure.empty()) failure = std::move(message);
    failed.store(true);  // before any look at `readers`
  }
  [[noreturn]] void Throw() {
    const std::scoped_lock lock(mutex);
    throw Error(ErrorCode::kDevice, failure);
  }
};

class LocalCollective final : public Collective {
 public:
  LocalCollective(std::shared_ptr<LocalGroup> group, int rank, double deadline)
      : group_(std::move(group)), rank_(rank), deadline_(deadline) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(group_->members.size()); }
  void SetDeadline(double seconds) override { deadline_ = seconds; }
  void Poll(std::string_view) override {
    if (group_->failed.load(std::memory_order_acquire)) group_->Throw();
  }

  void Exchange(std::string_view what, std::span<const std::byte> mine,
                std::span<const size_t> sizes, Visit visit) override {
    Hand(what, mine);
    for (int from = 0; from < ranks(); ++from) {
      const Handed& handed = Await(from, what);
      const size_t expected = sizes[static_cast<size_t>(from)];
      if (handed.bytes.size() != expected || handed.place != place_) {
        Mismatch(from, handed.what, handed.bytes.size(), what, expected);
      }
      visit(from, handed.bytes);
    }
    Next().AskBack();
  }

  bool Share(std::string_view what, std::span<const std::byte> mine, UseAll use) override {
    try {
      Hand(what, {}, mine);
      std::vector<std::span<const std::byte>> all;
      for (int from = 0; from < ranks(); ++from) {
        const Handed& handed = Await(from, what);
        if (handed.place != place_)
          Mismatch(from, handed.what, handed.bytes.size(), what, mine.size());
        all.push_back(handed.lent);
      }
      const Reading reading(*group_);
      if (group_->failed.load()) group_->Throw();
      use(all);
    } catch (const std::exception& error) {
      // What was lent may go once nobody looks at it, and nobody begins to after a failure.
      Fail(error.what());
      while (group_->readers.load() > 0) std::this_thread::yield();
      throw;
    }
    Hand(what, {});
    for (int from = 0; from < ranks(); ++from) AwaitEnd(from, what);
    return true;
  }

  void Broadcast(std::string_view what, std::vector<std::byte>& bytes, int root) override {
    Hand(what, root == rank_ ? std::span<const std::byte>(bytes) : std::span<const std::byte>());
    for (int from = 0; from < ranks(); ++from) {
      const Handed& handed = Await(from, what);
      if (handed.place != place_) Mismatch(from, handed.what, handed.bytes.size(), what, 0);
      if (from == root && root != rank_) bytes.assign(handed.bytes.begin(), handed.bytes.end());
    }
  }

  void Pass(std::string_view what, std::span<std::byte> bytes, int from, int to) override {
    if (from == to || (rank_ != from && rank_ != to)) return;
    if (group_->failed.load(std::memory_order_acquire)) group_->Throw();
    LocalMail& mail = group_->mail.at({from, to});
    if (rank_ == from) {
      const std::scoped_lock lock(mail.mutex);
      mail.letters.push_back({{bytes.begin(), bytes.end()}, std::string(what)});
      return;
    }
    const Letter letter = AwaitLetter(mail, from, what);
    if (letter.bytes.size() != bytes.size() || letter.what != what) {
      Mismatch(from, letter.what, letter.bytes.size(), what, bytes.size());
    }
    if (!bytes.empty()) std::memcpy(bytes.data(), letter.bytes.data(), bytes.size());
  }

  void Fail(std::string_view message) noexcept override {
    try {
      group_->Fail(RankName(rank_, "a thread of this process") + ": " + std::string(message));
    } catch (...) {
      group_->failed.store(true);  // without a word: there is no memory
    }
  }

 private:
  /// While it lives, what others have lent has to stay.
  class Reading {
   public:
    explicit Reading(LocalGroup& group) : group_(group) { group_.readers.fetch_add(1); }
    ~Reading() { group_.readers.fetch_sub(1); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    LocalGroup& group_;
  };

  LocalRank& Self() { return group_->members[static_cast<size_t>(rank_)]; }
  Handed& Next() { return Self().handed[(turn_ + 1) % 2]; }

  void Hand(std::string_view what, std::span<const std::byte> mine,
            std::span<const std::byte> lent = {}) {
    Handed& handed = Next();
    handed.Copy(mine);
    handed.what = what;
    handed.place = place_ = PlaceOf(what);
    handed.lent = lent;
    Self().turn.store(++turn_, std::memory_order_release);
  }

  const Handed& Await(int from, std::string_view what) {
    LocalRank& other = group_->members[static_cast<size_t>(from)];
    Patience patience(deadline_);
    while (other.turn.load(std::memory_order_acquire) < turn_) KeepWaiting(patience, from, what);
    return other.handed[turn_ % 2];
  }

  /// That a rank is done with what was lent; after a failure, that nobody looks at it.
  void AwaitEnd(int from, std::string_view what) {
    try {
      const Handed& handed = Await(from, what);
      if (handed.place != place_) Mismatch(from, handed.what, handed.bytes.size(), what, 0);
    } catch (const Error&) {
      while (group_->readers.load() > 0) std::this_thread::yield();
      throw;
    }
  }

  Letter AwaitLetter(LocalMail& mail, int from, std::string_view what) {
    Patience patience(deadline_);
    while (true) {
      {
        const std::scoped_lock lock(mail.mutex);
        if (!mail.letters.empty()) {
          Letter letter = std::move(mail.letters.front());
          mail.letters.pop_front();
          return letter;
        }
      }
      KeepWaiting(patience, from, what);
    }
  }

  void KeepWaiting(Patience& patience, int from, std::string_view what) {
    if (group_->failed.load(std::memory_order_acquire)) group_->Throw();
    if (patience.Wait()) return;
    group_->Fail(RankName(from, "a thread of this process") + " did not come to " +
                 std::string(what) + " within " + FormatFloat(deadline_) + " s, where rank " +
                 std::to_string(rank_) + " waits for it: it hangs or is too slow; a longer " +
                 "deadline gives it time");
  }

  [[noreturn]] void Mismatch(int from, std::string_view theirs, size_t bytes, std::string_view what,
                             size_t expected) {
    group_->Fail("rank " + std::to_string(from) + " is at " + std::string(theirs) + " with " +
                 std::to_string(bytes) + " bytes, where rank " + std::to_string(rank_) + " is at " +
                 std::string(what) + " and expects " + std::to_string(expected) +
                 ": they do not compute the same model");
    group_->Throw();
  }

  std::shared_ptr<LocalGroup> group_;
  int rank_;
  double deadline_;
  uint64_t turn_ = 0;
  uint64_t place_ = 0;  ///< of that turn
};

}  // namespace

std::vector<std::unique_ptr<Collective>> MakeLocalGroup(int ranks, double deadline) {
  if (ranks < 1) throw Error(ErrorCode::kInvalidArgument, "a group has at least one rank");
  const auto group = std::make_shared<LocalGroup>(ranks);
  std::vector<std::unique_ptr<Collective>> members;
  for (int rank = 0; rank < ranks; ++rank) {
    members.push_back(std::make_unique<LocalCollective>(group, rank, deadline));
  }
  return members;
}

}  // namespace oort
