// SPDX-License-Identifier: MIT
#include "serve/model_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace oort::serve {
namespace {

std::string Megabytes(size_t bytes) {
  return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
}

}  // namespace

std::string_view Name(ModelState state) {
  switch (state) {
    case ModelState::kUnloaded: return "unloaded";
    case ModelState::kLoading: return "loading";
    case ModelState::kLoaded: return "loaded";
    case ModelState::kFailed: return "failed";
  }
  return "";
}

ModelPool::ModelPool(std::vector<ModelSource> sources, ModelPoolOptions options)
    : options_(std::move(options)) {
  for (ModelSource& source : sources) {
    Entry& entry = entries_.emplace_back();
    entry.source = std::move(source);
    entry.bytes = entry.source.guessed_bytes;
    if (!entry.source.stays) continue;
    entry.resident = entry.source.load();
    entry.bytes = entry.resident->bytes();
    entry.state = ModelState::kLoaded;
    entry.loads = 1;
  }
  thread_ = std::thread([this] { Run(); });
}

ModelPool::~ModelPool() {
  Stop();
  // What runs in them holds leases, which need the rest of the pool.
  for (Entry& entry : entries_) entry.resident.reset();
}

void ModelPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::list<Waiter> left;
  {
    const std::lock_guard lock(mutex_);
    left = TakeWaiters({});
  }
  const auto ends =
      std::make_exception_ptr(Error(ErrorCode::kCancelled, "the server is about to end"));
  for (const Waiter& waiter : left) Tell(waiter, nullptr, ends);
}

void ModelPool::Tell(const Waiter& waiter, Lease lease, const std::exception_ptr& failure) {
  try {
    waiter.then(std::move(lease), failure);
  } catch (...) {
    // What fails for one asker must not end the others. His reply goes with him, and so he is told.
  }
}

/// Gives a use back when it goes.
struct ModelPool::Use {
  ModelPool* pool = nullptr;
  Entry* entry = nullptr;
  ~Use() {
    if (entry != nullptr) pool->Release(*entry);
  }
};

ModelPool::Lease ModelPool::LeaseOf(Entry& entry) {
  const auto use = std::make_shared<Use>();
  use->pool = this;
  use->entry = &entry;
  ++entry.uses;
  entry.last_use = ++clock_;
  return {use, entry.resident.get()};
}

void ModelPool::Release(Entry& entry) {
  const std::lock_guard lock(mutex_);
  entry.last_use = ++clock_;
  if (--entry.uses > 0 || waiters_.empty()) return;
  changed_ = true;
  wake_.notify_all();
}

void ModelPool::Ask(size_t model, size_t bytes, Wanted wanted, Then then) {
  Lease lease;
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(model);
    const bool failed_lately =
        entry.state == ModelState::kFailed && Clock::now() - entry.failed_at < options_.retry_time;
    if (entry.state == ModelState::kLoaded && !entry.leaving) {
      lease = LeaseOf(entry);
    } else if (failed_lately) {
      failure = entry.failure;
    } else if (stop_) {
      throw Error(ErrorCode::kCancelled, "the server is about to end");
    } else {
      if (waiters_.size() >= options_.most_waiting ||
          (!waiters_.empty() && waiting_bytes_ + bytes > options_.most_bytes)) {
        throw Error(ErrorCode::kLimit,
                    "too many requests wait for a model to be loaded: try again later");
      }
      waiters_.push_back({model, bytes, std::move(wanted), std::move(then)});
      waiting_bytes_ += bytes;
      changed_ = true;
      wake_.notify_all();
      return;
    }
  }
  then(std::move(lease), failure);
}

ModelPool::Lease ModelPool::Peek(size_t model) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(model);
  return entry.state == ModelState::kLoaded && !entry.leaving ? LeaseOf(entry) : nullptr;
}

ModelPool::Report ModelPool::Look(size_t model) const {
  const std::lock_guard lock(mutex_);
  const Entry& entry = entries_.at(model);
  return {entry.state, entry.resident ? entry.bytes : 0, entry.loads};
}

size_t ModelPool::UsedLocked() const {
  size_t used = 0;
  for (const Entry& entry : entries_) used += entry.resident ? entry.bytes : 0;
  return used;
}

size_t ModelPool::used() const {
  const std::lock_guard lock(mutex_);
  return UsedLocked();
}

std::list<ModelPool::Waiter> ModelPool::TakeWaiters(std::optional<size_t> model) {
  std::list<Waiter> taken;
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    const auto next = std::next(at);
    if (!model || at->model == *model) {
      waiting_bytes_ -= at->bytes;
      taken.splice(taken.end(), waiters_, at);
    }
    at = next;
  }
  return taken;
}

void ModelPool::DropUnwanted(std::unique_lock<std::mutex>& lock) {
  std::list<Waiter> dropped;
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    const auto next = std::next(at);
    if (!at->wanted()) {
      waiting_bytes_ -= at->bytes;
      dropped.splice(dropped.end(), waiters_, at);
    }
    at = next;
  }
  lock.unlock();
  dropped.clear();  // what they hold may hold a lease
  lock.lock();
}

void ModelPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    // Who waits for room is looked at now and then, because nobody says when he leaves.
    const auto changed = [&] { return stop_ || changed_; };
    if (waiters_.empty()) {
      wake_.wait(lock, changed);
    } else {
      wake_.wait_for(lock, std::chrono::milliseconds(100), changed);
    }
    if (stop_) return;
    changed_ = false;
    DropUnwanted(lock);
    if (waiters_.empty()) {
      for (Entry& entry : entries_) entry.leaving = false;
      continue;
    }
    try {
      LoadFor(waiters_.front().model, lock);
    } catch (...) {
      // Without memory to tell who waits: it is tried again at the next look.
      if (!lock.owns_lock()) lock.lock();
      changed_ = false;
    }
  }
}

bool ModelPool::MakeRoom(size_t need, const Entry& wanted, std::unique_lock<std::mutex>& lock) {
  if (options_.memory == 0) return true;
  size_t staying = need;
  for (const Entry& entry : entries_) staying += entry.source.stays ? entry.bytes : 0;
  if (staying > options_.memory) {
    const size_t others = staying - need;
    throw Error(ErrorCode::kLimit,
                "the model needs " + Megabytes(need) + " of memory" +
                    (others > 0 ? " beside " + Megabytes(others) + " that are taken" : "") +
                    ", and models may take " + Megabytes(options_.memory) +
                    " together: start the server with a larger --models-memory");
  }
  std::vector<Entry*> oldest_first;
  for (Entry& entry : entries_) {
    if (entry.resident && !entry.source.stays && &entry != &wanted) oldest_first.push_back(&entry);
  }
  // What nobody uses goes first; then what was chosen before, or nothing would ever be free.
  std::ranges::sort(oldest_first, {}, [](const Entry* entry) {
    return std::tuple(entry->uses > 0, !entry->leaving, entry->last_use);
  });
  for (Entry& entry : entries_) entry.leaving = false;
  size_t used = UsedLocked();
  bool waits = false;
  for (Entry* entry : oldest_first) {
    if (used + need <= options_.memory) break;
    used -= entry->bytes;
    entry->leaving = true;
    waits |= entry->uses > 0;
  }
  for (Entry* entry : oldest_first) {
    if (!entry->leaving || entry->uses > 0) continue;
    entry->state = ModelState::kUnloaded;
    entry->leaving = false;
    std::unique_ptr<Resident> going = std::move(entry->resident);
    lock.unlock();
    going.reset();
    lock.lock();
  }
  return !waits;
}

void ModelPool::LoadFor(size_t model, std::unique_lock<std::mutex>& lock) {
  Entry& entry = entries_[model];
  if (entry.resident) return Serve(model, lock);
  try {
    if (!MakeRoom(entry.bytes, entry, lock)) return;  // Release says when to look again
    entry.state = ModelState::kLoading;
    lock.unlock();
    std::unique_ptr<Resident> resident;
    std::exception_ptr failure;
    try {
      resident = entry.source.load();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    entry.state = ModelState::kUnloaded;
    if (failure) std::rethrow_exception(failure);
    ++entry.loads;
    entry.bytes = resident->bytes();
    changed_ = true;
    // The guess was too low: it goes again until others have made room for what it really takes.
    if (!MakeRoom(entry.bytes, entry, lock)) {
      lock.unlock();
      resident.reset();
      lock.lock();
      return;
    }
    entry.resident = std::move(resident);
    entry.state = ModelState::kLoaded;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    return Fail(model, std::current_exception(), lock);
  }
  Serve(model, lock);
}

void ModelPool::Serve(size_t model, std::unique_lock<std::mutex>& lock) {
  Entry& entry = entries_[model];
  entry.leaving = false;
  std::list<Waiter> served = TakeWaiters(model);
  std::vector<Lease> leases;
  try {
    leases.reserve(served.size());
    while (leases.size() < served.size()) leases.push_back(LeaseOf(entry));
  } catch (...) {
    lock.unlock();  // leases that go need it
    throw;
  }
  changed_ = true;
  lock.unlock();
  auto lease = leases.begin();
  for (const Waiter& waiter : served) Tell(waiter, std::move(*lease++), nullptr);
  served.clear();
  leases.clear();
  lock.lock();
}

void ModelPool::Fail(size_t model, const std::exception_ptr& failure,
                     std::unique_lock<std::mutex>& lock) {
  Entry& entry = entries_[model];
  entry.state = ModelState::kFailed;
  entry.failed_at = Clock::now();
  entry.failure = failure;
  const std::string name = entry.source.name;
  std::list<Waiter> told = TakeWaiters(model);
  changed_ = true;
  lock.unlock();
  if (options_.on_failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      options_.on_failure(name, error);
    } catch (const std::exception& error) {
      options_.on_failure(name, Error(ErrorCode::kInternal, error.what()));
    } catch (...) {
      options_.on_failure(name, Error(ErrorCode::kInternal, "for a reason that nobody knows"));
    }
  }
  for (const Waiter& waiter : told) Tell(waiter, nullptr, failure);
  told.clear();
  lock.lock();
}

}  // namespace oort::serve
