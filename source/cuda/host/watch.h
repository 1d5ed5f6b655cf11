// SPDX-License-Identifier: MIT
// Who waits for a GPU whose work waits for other machines must be able to give up.
#pragma once

#include "oort/function_ref.h"

namespace oort::cuda {

/// Looks after what a GPU waits for.
class Watch {
 public:
  Watch() = default;
  virtual ~Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// Called now and then while a thread waits for the GPU, with the seconds that it has waited.
  /// Throws where it should wait no longer.
  virtual void Look(double waited) = 0;
};

/// While it lives, this thread calls the watch wherever it waits for a GPU; null for none.
class WatchScope {
 public:
  explicit WatchScope(Watch* watch);
  ~WatchScope();
  WatchScope(const WatchScope&) = delete;
  WatchScope& operator=(const WatchScope&) = delete;
  static Watch* Current();

 private:
  Watch* before_;
};

/// Until `done` says so, or the watch throws.
void WaitWatched(Watch& watch, FunctionRef<bool()> done);

}  // namespace oort::cuda
