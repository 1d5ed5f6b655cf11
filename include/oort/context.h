// SPDX-License-Identifier: MIT
// What a layer is handed when it runs: its arguments, threads, scratch memory and the run's state.
#pragma once

#include <optional>
#include <span>

#include "oort/function_ref.h"
#include "oort/value.h"

namespace oort {

/// The arguments of one call, in the order of the schema; each is an input or a parameter, and
/// a layer need not know which.
class Args {
 public:
  Args(std::span<const Value* const> args, std::span<const Value* const> variadic,
       std::span<const Value* const> inputs)
      : args_(args), variadic_(variadic), inputs_(inputs) {}
  const Value& operator[](int index) const { return *args_[static_cast<size_t>(index)]; }
  int size() const { return static_cast<int>(args_.size()); }
  bool Has(int index) const { return index >= 0 && !(*this)[index].IsNone(); }
  const Tensor& tensor(int index) const { return (*this)[index].AsTensor(); }
  const Shape& shape(int index) const { return tensor(index).shape(); }
  /// What the variadic argument took.
  std::span<const Value* const> variadic() const { return variadic_; }
  /// All input operands as they stand in the file.
  std::span<const Value* const> inputs() const { return inputs_; }

 private:
  std::span<const Value* const> args_;
  std::span<const Value* const> variadic_;
  std::span<const Value* const> inputs_;
};

namespace cuda {
class Stream;  // cuda/stream.h
}

/// What layers of one run share beside their arguments. A family of layers derives from it what
/// they need (the attention of language models: SequenceBatch in oort/kv_cache.h); who runs the
/// graph hands it over as RunOptions::state.
class RunState {
 public:
  /// What a recording of a run on a GPU has fixed of its state.
  struct Key {
    const void* memory = nullptr;
    const void* table = nullptr;
    size_t count = 0;
    bool operator==(const Key&) const = default;
  };

  virtual ~RunState() = default;
  /// A recording serves all runs whose keys are equal; unset where each run is another.
  virtual std::optional<Key> RecordingKey() const = 0;
  /// Called before the layers of a run on a GPU: brings over what they read there.
  virtual void Enqueue(cuda::Stream& stream) const = 0;
};

/// What a kernel may use while it runs.
class Context {
 public:
  Context(int threads, std::span<std::byte> workspace, const RunState* state = nullptr,
          cuda::Stream* stream = nullptr, std::span<const std::byte> next_weights = {})
      : threads_(threads),
        workspace_(workspace),
        state_(state),
        stream_(stream),
        next_weights_(next_weights) {}
  int threads() const { return threads_; }
  /// That of RunOptions; null where the caller gave none.
  const RunState* state() const { return state_; }
  /// Where a CUDA layer enqueues its work, in order with that of all others; null on the CPU.
  cuda::Stream* stream() const { return stream_; }
  /// Layer::WeightBytes of the layer that runs next and has any: a layer that waits for memory may
  /// prefetch them. Empty where there are none, and where they are on another device.
  std::span<const std::byte> next_weights() const { return next_weights_; }
  /// The bytes that Layer::Workspace asked for, aligned to 64, on the layer's device.
  template <typename T = std::byte>
  T* workspace() const {
    return reinterpret_cast<T*>(workspace_.data());
  }
  /// Runs body(begin, end) over [0, count), in pieces of at least `grain`, on threads(). A grain is
  /// as many items as one thread does in two microseconds, or 1 for larger ones: less work runs
  /// right here, and so does a loop inside a body. The body may throw; the first exception is
  /// rethrown here.
  void ParallelFor(int64_t count, int64_t grain,
                   FunctionRef<void(int64_t begin, int64_t end)> body) const;

 private:
  int threads_;
  std::span<std::byte> workspace_;
  const RunState* state_;
  cuda::Stream* stream_;
  std::span<const std::byte> next_weights_;
};

}  // namespace oort
