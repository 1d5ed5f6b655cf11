// SPDX-License-Identifier: MIT
// Several ranks that compute the steps of one model together: rank 0 leads, the others follow.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/collective.h"
#include "llm/followed_texts.h"
#include "llm/step_message.h"
#include "oort/language_model.h"

namespace oort {

/// How long ranks wait for each other while models are loaded.
inline constexpr double kLoadingDeadline = 600;

/// Where a rank stands, and what of all others it can reach.
/// Thread contract: on rank 0 any number of threads; on others one.
class RankGroup {
 public:
  /// `pings`: others are processes, which have to be told now and then that rank 0 is there.
  /// `lone`: there are no others.
  RankGroup(std::unique_ptr<Collective> group, double deadline, bool pings, bool lone = false);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return lone_ ? 0 : group_->rank(); }
  /// Which part of the model this one computes: that of its rank.
  int part() const { return group_->rank(); }
  bool lone() const { return lone_; }
  int ranks() const { return group_->ranks(); }
  Collective& collective() { return *group_; }
  /// Others are processes of their own, here or on other machines.
  bool of_processes() const { return pings_; }
  /// Ranks of this process, of which each has its share of the processors.
  int local_ranks() const { return static_cast<int>(followers_.size()) + 1; }

  /// A thread of this process that is another rank. `run` must not throw.
  void AddFollower(std::function<void()> run) { followers_.emplace_back(std::move(run)); }

  /// All ranks have loaded the same model in the same way, or all of them throw what is wrong.
  void Agree(uint64_t digest, const std::string& summary);

  /// Rank 0: sends a message to all, and with it which texts have ended; then runs `body` beside
  /// them. Where it throws, all ranks end.
  void Lead(RankMessage& message, const std::function<void()>& body);
  /// A number for a new DecoderRunner of rank 0, whose caches the others have then, too.
  uint32_t Open(KvType kv, int64_t cache_tokens, int threads);
  void Close(uint32_t runner) noexcept;

  /// Rank 0: all ranks read a text, this one by `read`.
  std::shared_ptr<const EncodedText> Read(
      std::span<const int32_t> tokens, const std::function<std::shared_ptr<EncodedText>()>& read);

  /// Other ranks: do what rank 0 says until it needs the model no more.
  void Follow(const std::shared_ptr<const LanguageModel>& model);

 private:
  struct Runner;
  void Send(RankMessage& message);
  void Ping();
  void Stop() noexcept;

  std::unique_ptr<Collective> group_;
  double deadline_;
  bool pings_, lone_;
  std::mutex mutex_;  // one step at a time: exchanges of two must not mix
  std::atomic<uint32_t> next_ = 1;
  std::atomic<int64_t> next_text_ = 0;
  ToldTexts texts_;
  std::vector<std::thread> followers_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool sent_ = false;  // since the last ping
  std::thread pinger_;
};

/// Threads of one rank, where `threads` is what the caller asked for: 0 shares the processors out.
int ThreadsOfRank(const LanguageModel& model, int threads);

}  // namespace oort
