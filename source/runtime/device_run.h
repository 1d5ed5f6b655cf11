// SPDX-License-Identifier: MIT
// What a session does on a device other than the host.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "runtime/device_backend.h"
#include "runtime/runtime_impl.h"

namespace oort {

/// What a recording is good for: runs of this plan whose layers share a state of this key, and that
/// leave out what these outputs alone need.
struct RunKey {
  std::shared_ptr<const ExecutionPlan> plan;
  RunState::Key state;
  uint64_t unread = 0;
  bool operator==(const RunKey&) const = default;
};

/// Its queue, its arena, and recordings of what it enqueued before.
/// Thread contract: that of the session.
class DeviceRun {
 public:
  /// `record`: whether recordings are made at all.
  DeviceRun(const RuntimeImpl& graph, bool record);
  /// Waits for what was left running.
  ~DeviceRun();
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  DeviceQueue& queue() { return *queue_; }
  /// Takes care that the arena is large enough for the plan.
  void Prepare(const ExecutionPlan& plan);
  const std::shared_ptr<Buffer>& arena() const { return arena_; }

  /// Enqueues the copy that a node stands for: numbers pass through, lists are copied one by one.
  /// `to` is allocated already where its shape was known before.
  void Copy(const Node& node, const Value& from, Value& to, bool allocated);
  /// Between them is one Forward; what is left of one that failed is waited for.
  void Begin() { running_ = true; }
  void End();
  /// Like End for who waits later.
  void Leave();
  void Abandon() noexcept;
  /// Copies on the host, for who looks at elements.
  std::vector<Value> OnHost(std::span<const Value> values);
  /// Copies elements that are here or there, after all that was enqueued; waits for it.
  void CopyNow(const Tensor& from, Tensor& to);
  /// Before the host reads what a copy brought.
  void WaitForHost();
  void Finish();

  /// Enqueues steps from `index` on as one recording, made of what `run_step` does, if there is or
  /// can be one; returns the step behind them, or `index`. Everything runs step by step first, is
  /// recorded the second time, and is replayed from then on.
  size_t Replay(const RunKey& key, size_t index, const std::function<void(size_t step)>& run_step);
  /// A Forward with this plan ran to its end.
  void CountRun(const RunKey& key);
  size_t recordings() const;

 private:
  /// Consecutive steps of the device whose shapes are all known.
  struct Segment {
    size_t begin = 0, end = 0;
    bool refused = false;  // could not be recorded
    std::unique_ptr<Recording> recording;
  };
  struct PlanRecord {
    RunKey key;
    int runs = 0;
    std::vector<Segment> segments;
  };
  static constexpr size_t kMostPlans = 48;

  std::vector<Segment> FindSegments(const ExecutionPlan& plan) const;
  PlanRecord& RecordOf(const RunKey& key);
  Value CopyNew(const Value& from, bool to_device);

  const RuntimeImpl& graph_;
  bool record_;
  std::unique_ptr<DeviceBackend> backend_;
  std::unique_ptr<DeviceQueue> queue_;
  std::shared_ptr<Buffer> arena_;
  bool host_waits_ = false, running_ = false;
  std::list<PlanRecord> records_;  // most recently used first; gone before the queue
};

/// Arguments as shape inference may see them: what is on the device has no elements there.
class ShapeArgs {
 public:
  explicit ShapeArgs(const Args& args);
  Args View() const { return {args_, variadic_, inputs_}; }

 private:
  const Value* Shape(const Value* value);
  std::list<Value> shapes_;
  std::vector<const Value*> args_, variadic_, inputs_;
};

}  // namespace oort
