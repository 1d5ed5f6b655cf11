// SPDX-License-Identifier: MIT
// Models that are loaded when somebody asks for them, within a limit of memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "oort/error.h"

namespace oort::serve {

/// A model that is loaded.
class Resident {
 public:
  virtual ~Resident() = default;
  /// What it holds of the memory that the pool shares out.
  virtual size_t bytes() const = 0;
};

struct ModelSource {
  std::string name;
  /// Throws what is wrong with the model.
  std::function<std::unique_ptr<Resident>()> load;
  size_t guessed_bytes = 0;  ///< until it was loaded once
  bool stays = false;        ///< loaded from the beginning, and never unloaded
};

enum class ModelState : unsigned char { kUnloaded, kLoading, kLoaded, kFailed };
std::string_view Name(ModelState state);

struct ModelPoolOptions {
  size_t memory = 0;             ///< of all loaded models together; 0: no limit
  size_t most_waiting = 1024;    ///< who wait for a model to be loaded
  size_t most_bytes = 64 << 20;  ///< that these hold
  /// A model that could not be loaded is not tried again for so long.
  std::chrono::milliseconds retry_time{5000};
  /// Called on the pool's thread.
  std::function<void(std::string_view model, const Error&)> on_failure;
};

/// Loads and unloads on a thread of its own, one model at a time. When there is no room, the models
/// that were not used for the longest time go, as soon as nobody uses them: from then on who asks
/// for one of these waits, so that nobody waits for ever. Thread contract: any number of threads.
class ModelPool {
 public:
  /// A model stays while this lives. It may outlive all but the pool.
  using Lease = std::shared_ptr<Resident>;
  /// One of both is set. Called once: by Ask where the model is there, else on the pool's thread,
  /// which must not wait. Not called for who is not wanted any more.
  using Then = std::function<void(Lease, std::exception_ptr)>;
  /// Whether somebody still waits for it.
  using Wanted = std::function<bool()>;

  /// Loads those that stay; throws where one cannot be loaded.
  ModelPool(std::vector<ModelSource> sources, ModelPoolOptions options);
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  /// The model, now or later. Throws kLimit where too many wait; `bytes` is what waiting holds.
  void Ask(size_t model, size_t bytes, Wanted wanted, Then then);
  /// The model if it is there; null otherwise.
  Lease Peek(size_t model);

  struct Report {
    ModelState state = ModelState::kUnloaded;
    size_t bytes = 0;  ///< while it is loaded
    int64_t loads = 0;
  };
  Report Look(size_t model) const;
  /// Of all loaded models.
  size_t used() const;

  /// Loads and unloads nothing from here on; who waits is told kCancelled.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    ModelSource source;
    std::unique_ptr<Resident> resident;
    size_t bytes = 0;  ///< of the resident, or what it would need
    ModelState state = ModelState::kUnloaded;
    bool leaving = false;  ///< goes as soon as nobody uses it
    int64_t uses = 0, loads = 0;
    uint64_t last_use = 0;
    Clock::time_point failed_at;
    std::exception_ptr failure;
  };
  struct Use;
  struct Waiter {
    size_t model, bytes;
    Wanted wanted;
    Then then;
  };

  void Run();
  /// Unloads until so much fits beside the rest. False: what must go first is in use.
  bool MakeRoom(size_t need, const Entry& wanted, std::unique_lock<std::mutex>& lock);
  void LoadFor(size_t model, std::unique_lock<std::mutex>& lock);
  void Fail(size_t model, const std::exception_ptr& failure, std::unique_lock<std::mutex>& lock);
  void Serve(size_t model, std::unique_lock<std::mutex>& lock);
  static void Tell(const Waiter& waiter, Lease lease, const std::exception_ptr& failure);
  std::list<Waiter> TakeWaiters(std::optional<size_t> model);
  void DropUnwanted(std::unique_lock<std::mutex>& lock);
  Lease LeaseOf(Entry& entry);
  void Release(Entry& entry);
  size_t UsedLocked() const;

  const ModelPoolOptions options_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::vector<Entry> entries_;
  std::list<Waiter> waiters_;  ///< in the order in which they came
  size_t waiting_bytes_ = 0;
  uint64_t clock_ = 0;
  bool changed_ = false;  ///< since the thread last looked
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace oort::serve
