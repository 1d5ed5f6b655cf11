// SPDX-License-Identifier: MIT
// Runs a graph for many askers: one after another, or several at once where that changes nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "oort/runtime_graph.h"
#include "oort/session.h"
#include "serve/model_pool.h"

namespace oort::serve {

struct GraphOptions {
  int threads = 0;         ///< 0 for as many as the process may use
  int64_t most_batch = 8;  ///< rows of requests that run together; 1: each runs alone
  bool exact = false;      ///< only where each gets its bits; else float rounding may differ
  std::chrono::microseconds batch_wait{1000};  ///< for others to join a request that could run
  size_t most_waiting = 1024;
  size_t waiting_inputs = size_t{256} << 20;  ///< bytes of all that wait; one may have more
  size_t activations = size_t{2} << 30;  ///< bytes: what a request asks for is not known before
  size_t results = size_t{64} << 20;     ///< bytes of one request
};

/// Thread contract: any number of threads.
class GraphRunner : public Resident {
 public:
  using Clock = std::chrono::steady_clock;

  struct Job {
    std::vector<Tensor> inputs;  ///< one for each of the graph's
    Clock::time_point deadline = Clock::time_point::max();
    std::function<bool()> wanted;
    /// On the runner's thread; one of both is set. Not called for who is not wanted any more.
    std::function<void(std::vector<Tensor>, std::exception_ptr)> done;
  };

  /// `guessed_bytes` is what it takes where the file does not say which shapes its inputs have.
  GraphRunner(std::shared_ptr<const RuntimeGraph> graph, const GraphOptions& options,
              size_t guessed_bytes = 0);
  ~GraphRunner() override;

  size_t bytes() const override { return bytes_; }
  const RuntimeGraph& graph() const { return *graph_; }
  /// Whether rows along the first axis do not depend on each other.
  bool batches() const { return !sizes_.empty(); }
  /// How often the graph has run, the runs that tried it out not among them.
  int64_t runs() const;

  /// Throws kLimit where too many wait.
  void Submit(Job job);

 private:
  struct Queued {
    Job job;
    int64_t rows = 0;  ///< 0: it runs alone
    Clock::time_point arrived = Clock::now();
  };

  /// Finds out with which numbers of rows each row is what it is alone.
  void TryBatches(int64_t most);
  int64_t RowsOf(const std::vector<Tensor>& inputs) const;
  /// Of requests that run together.
  int64_t MostRows() const { return sizes_.empty() ? 1 : *sizes_.rbegin(); }
  void Run();
  void TakeBatch(std::unique_lock<std::mutex>& lock);
  void RunTogether(std::vector<Queued>& batch);
  void RunAlone(Queued& one);
  void CheckResults(const std::vector<Tensor>& inputs) const;

  const std::shared_ptr<const RuntimeGraph> graph_;
  const GraphOptions options_;
  Session session_;
  size_t bytes_ = 0;
  std::set<int64_t> sizes_;  ///< of batches, 2 and more
  // Of the thread alone, with room for all that may run together: taking a batch needs no memory.
  std::vector<size_t> chosen_;  ///< places in the queue
  std::vector<Queued> batch_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<Queued> queue_;
  size_t waiting_bytes_ = 0;  ///< of its inputs
  int64_t runs_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace oort::serve
