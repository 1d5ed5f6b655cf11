// SPDX-License-Identifier: MIT
#include "cuda/stream.h"

#include <atomic>

#include "cuda/error.h"
#include "cuda/host/watch.h"
#include "cuda/live_streams.h"

namespace oort::cuda {

DeviceGuard::DeviceGuard(int device) {
  int current = 0;
  Check(cudaGetDevice(&current), "no CUDA device");
  if (current == device) return;
  Check(cudaSetDevice(device), "choosing a CUDA device");
  before_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) cudaSetDevice(before_);
}

namespace {

/// Of an answer to whether something is over; what went wrong in it is thrown.
bool IsDone(cudaError_t state) {
  if (state == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  Check(state, "work on the GPU");
  return true;
}

uint64_t NextStreamId() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Stream::Stream(int device) : device_(device), id_(NextStreamId()) {
  const DeviceGuard guard(device);
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  LiveStreams::Add(id_, stream_);
}

Stream::~Stream() {
  LiveStreams::Remove(id_, [this] {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  });
  cudaGetLastError();  // whoever waited for its work has the error already
}

void Stream::Synchronize() {
  if (Watch* const watch = WatchScope::Current()) {
    WaitWatched(*watch, [this] { return IsDone(cudaStreamQuery(stream_)); });
  }
  Check(cudaStreamSynchronize(stream_), "work on the GPU");
}

void Stream::Wait(const Event& event) {
  Check(cudaStreamWaitEvent(stream_, event.get(), 0), "waiting for an event");
}

bool Stream::Capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  Check(cudaStreamIsCapturing(stream_, &status), "asking a stream");
  return status != cudaStreamCaptureStatusNone;
}

void Stream::CopyToDevice(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_),
        "copying to the GPU");
}

void Stream::CopyToHost(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_),
        "copying from the GPU");
}

void Stream::CopyOnDevice(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copying on the GPU");
}

void Stream::Fill(void* device, int byte, size_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemsetAsync(device, byte, bytes, stream_), "filling memory of the GPU");
}

Event::Event(int device, bool timed) {
  const DeviceGuard guard(device);
  Check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming),
        "making an event");
}

Event::~Event() { cudaEventDestroy(event_); }

void Event::Record(const Stream& stream) {
  Check(cudaEventRecord(event_, stream.get()), "recording an event");
}

void Event::Synchronize() const {
  if (Watch* const watch = WatchScope::Current()) {
    WaitWatched(*watch, [this] { return Passed(); });
  }
  Check(cudaEventSynchronize(event_), "work on the GPU");
}

bool Event::Passed() const { return IsDone(cudaEventQuery(event_)); }

double Event::SecondsSince(const Event& earlier) const {
  float milliseconds = 0;
  Check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "timing work on the GPU");
  return static_cast<double>(milliseconds) * 1e-3;
}

RecordedGraph::RecordedGraph(Stream& stream, const std::function<void()>& enqueue) {
  // Only the work of this thread is recorded. What other threads do meanwhile is allowed and not
  // recorded.
  Check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
        "recording a graph");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream.get(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  Check(cudaStreamEndCapture(stream.get(), &graph), "recording a graph");
  cudaError_t error = cudaGraphGetNodes(graph, nullptr, &nodes_);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&graph_, graph, 0);
  cudaGraphDestroy(graph);
  Check(error, "making a graph of what was recorded");
}

RecordedGraph::~RecordedGraph() { cudaGraphExecDestroy(graph_); }

void RecordedGraph::Launch(Stream& stream) const {
  Check(cudaGraphLaunch(graph_, stream.get()), "starting a recorded graph");
}

}  // namespace oort::cuda
