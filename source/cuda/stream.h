// SPDX-License-Identifier: MIT
// Streams, events and recorded graphs. Free of CUDA's headers, so that a build without CUDA has the
// same types; there the constructors throw kUnsupported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace oort::cuda {

/// Makes a device the current one of this thread as long as it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  [[maybe_unused]] int before_ = -1;  // -1: nothing to restore
};

class Event;

/// Work in order. Thread contract: one thread at a time.
class Stream {
 public:
  explicit Stream(int device);
  /// Waits for what was enqueued.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream_st* get() const { return stream_; }  ///< a cudaStream_t
  int device() const { return device_; }
  /// No other stream of the process has or had it; never 0.
  uint64_t id() const { return id_; }
  /// Waits until all work is done; throws what went wrong in it.
  void Synchronize();
  /// Later work of this stream waits for the event.
  void Wait(const Event& event);
  bool Capturing() const;

  // Copies of bytes in order with the other work. Host memory that is not pinned is copied before
  // the call returns; pinned memory must stay as it is until the copy is done.
  void CopyToDevice(void* device, const void* host, size_t bytes);
  void CopyToHost(void* host, const void* device, size_t bytes);
  void CopyOnDevice(void* to, const void* from, size_t bytes);
  void Fill(void* device, int byte, size_t bytes);

 private:
  CUstream_st* stream_ = nullptr;
  int device_;
  uint64_t id_;
};

/// A point in a stream.
class Event {
 public:
  /// Without `timed` SecondsSince cannot be asked, and recording is cheaper.
  explicit Event(int device, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  CUevent_st* get() const { return event_; }  ///< a cudaEvent_t
  void Record(const Stream& stream);
  void Synchronize() const;
  /// Whether all work before it is done; true if it was never recorded.
  bool Passed() const;
  double SecondsSince(const Event& earlier) const;

 private:
  CUevent_st* event_ = nullptr;
};

/// Work of a stream that was recorded once and is enqueued again as a whole.
class RecordedGraph {
 public:
  /// Runs `enqueue`, which enqueues its work in `stream`, while it is recorded instead of done.
  /// Throws kDevice where something in it cannot be recorded (a synchronization, for example), and
  /// whatever `enqueue` throws; the stream is usable afterwards.
  RecordedGraph(Stream& stream, const std::function<void()>& enqueue);
  ~RecordedGraph();
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  void Launch(Stream& stream) const;
  size_t nodes() const { return nodes_; }

 private:
  [[maybe_unused]] CUgraphExec_st* graph_ = nullptr;
  size_t nodes_ = 0;
};

}  // namespace oort::cuda
