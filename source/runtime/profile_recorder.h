// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/piece_observer.h"
#include "oort/profile.h"
#include "runtime/runtime_impl.h"

namespace oort {

/// Writes one Forward into a Profile: lives from its first line to its last.
class ProfileRecorder : public PieceObserver {
 public:
  ProfileRecorder(Profile& profile, const RuntimeImpl& graph, const ArgTable& args,
                  const std::vector<Value>& slots);
  ~ProfileRecorder() override;
  ProfileRecorder(const ProfileRecorder&) = delete;
  ProfileRecorder& operator=(const ProfileRecorder&) = delete;

  void Begin(size_t index);
  /// The node does not run: it takes no time and has no work.
  void Skip(size_t index);
  /// `dynamic`: the shapes were not known before the step ran. `seconds`: what it took, where a
  /// device tells; else the time since Begin.
  void End(size_t index, bool dynamic, std::optional<double> seconds = {});
  /// The Forward is over, but its slots still hold their tensors.
  void Finish(const ExecutionPlan& plan);

 private:
  void OnPiece(Clock::time_point begin, Clock::time_point end) override;
  void TakeWork(size_t index);
  double Since(Clock::time_point time) const {
    return std::chrono::duration<double>(time - start_).count();
  }

  Profile& profile_;
  std::vector<bool> skipped_;
  const RuntimeImpl& graph_;
  const ArgTable& args_;
  const std::vector<Value>& slots_;
  Clock::time_point start_, step_;
  double own_ = 0;  ///< seconds that the recorder itself took
  int node_ = 0;
  PieceObserver* before_;
  std::mutex mutex_;  ///< of pieces and threads_
  std::map<std::thread::id, int> threads_;
};

}  // namespace oort
