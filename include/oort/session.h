// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "oort/runtime_graph.h"

namespace oort {

struct Profile;
class DeviceMark;

struct SessionOptions {
  /// Threads of one Forward, 1024 at most; 0 for as many as the process may use: OMP_NUM_THREADS if
  /// set, else the cores of its affinity mask within the container's quota. Sessions that run
  /// at the same time share these; one inside a parallel region of the caller's stays on its
  /// thread.
  int threads = 0;
  /// Most bytes that activations may take in one Forward; 0 for no limit.
  size_t memory_limit = 0;
  /// Record what a Forward enqueues on a GPU once and replay it as one graph when the shapes are
  /// the same again; the environment variable OORT_CUDA_GRAPHS=0 turns it off everywhere.
  bool record_graphs = true;
};

/// What an observer sees after each operator.
struct NodeEvent {
  int index = 0;
  const Operator& op;
  std::span<const Value> outputs;
  double seconds = 0;
};

struct RunOptions {
  /// Checked between operators, and on the CPU every few milliseconds within those that take long;
  /// when triggered, Forward throws kCancelled. The session stays usable.
  std::stop_token stop;
  /// Results are written here instead of into new tensors. Undefined entries are allocated; the
  /// others must have the right dtype and shape.
  std::vector<Tensor> outputs;
  /// Bit i: nobody will read output i. What only such outputs need is not computed (on a GPU it
  /// is, all the same); their tensors hold anything, or are not there.
  uint64_t unread_outputs = 0;
  /// Called after each operator.
  std::function<void(const NodeEvent&)> observer;
  /// What layers share in this run beside their arguments, such as the sequences of a language
  /// model (see oort/kv_cache.h); null for nothing.
  const RunState* state = nullptr;
  /// Where the time of this Forward is written down (see oort/profile.h); null for nowhere.
  Profile* profile = nullptr;
};

/// A Forward that may still run on a device.
class PendingForward {
 public:
  PendingForward();  ///< nothing to wait for
  ~PendingForward();
  PendingForward(PendingForward&&) noexcept;
  PendingForward& operator=(PendingForward&&) noexcept;

  /// Until its results are there; throws what went wrong on the device.
  void Wait();

 private:
  friend class Session;
  std::unique_ptr<DeviceMark> mark_;
};

/// The state of one running model: activations and cached plans. Cheap, reusable; stays usable
/// after an Error. Thread contract: one thread at a time; make a Session for each thread.
class Session {
 public:
  explicit Session(std::shared_ptr<const RuntimeGraph> graph, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Runs the model on inputs of any legal shape. The results are the caller's.
  std::vector<Tensor> Forward(const std::vector<Tensor>& inputs, const RunOptions& options = {});
  /// The same into tensors of the caller's, one for each output, as RunOptions::outputs. Where all
  /// are given, and the last Forward had inputs of the same shapes, nothing is allocated: not by
  /// the session, nor by the layers of usual f32 networks.
  void ForwardInto(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                   const RunOptions& options = {});
  /// The same for who goes on while a GPU is at it: returns when everything is enqueued. Outputs,
  /// and inputs in pinned memory, must stay until the wait is over. Later Forwards of the session
  /// come behind it, and may have its outputs as inputs where they are pinned or on the device.
  [[nodiscard]] PendingForward ForwardLater(std::span<const Tensor> inputs,
                                            std::span<Tensor> outputs,
                                            const RunOptions& options = {});
  /// The same with names, as FindInput knows them, in any order; results come with theirs.
  using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
  NamedTensors ForwardNamed(const NamedTensors& inputs, const RunOptions& options = {});
  /// Like Forward for models whose inputs or outputs are not all tensors.
  std::vector<Value> Run(const std::vector<Value>& inputs, const RunOptions& options = {});

  const RuntimeGraph& graph() const;
  int threads() const;
  /// Where a GPU's work is enqueued: what is enqueued there, too, comes behind the Forwards so far
  /// and before those to come. Null on the CPU.
  cuda::Stream* stream() const;
  /// Bytes that this session holds for activations, on all devices.
  size_t memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oort
