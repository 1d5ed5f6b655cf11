// SPDX-License-Identifier: MIT
#include "runtime/device_backend.h"

#include <mutex>

#include "cuda/device.h"
#include "cuda/hold.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace oort {
namespace {

class CudaRecording final : public Recording {
 public:
  CudaRecording(cuda::Stream& stream, const std::function<void()>& enqueue)
      : stream_(stream), graph_(stream, enqueue) {}
  void Launch() override { graph_.Launch(stream_); }

 private:
  cuda::Stream& stream_;
  cuda::RecordedGraph graph_;
};

class CudaMark final : public DeviceMark {
 public:
  explicit CudaMark(const cuda::Stream& stream) : event_(stream.device()) { event_.Record(stream); }
  void Wait() override { event_.Synchronize(); }

 private:
  cuda::Event event_;
};

class CudaQueue final : public DeviceQueue {
 public:
  explicit CudaQueue(int device) : stream_(device) {}
  cuda::Stream* stream() override { return &stream_; }
  std::shared_ptr<void> Enter() override {
    return std::make_shared<cuda::DeviceGuard>(stream_.device());
  }
  std::shared_ptr<Buffer> Allocate(size_t bytes) override {
    return cuda::AllocateDevice(bytes, stream_);
  }
  void Copy(const Tensor& from, Tensor& to) override {
    const bool from_host = from.device().type == DeviceType::kCpu;
    const bool to_host = to.device().type == DeviceType::kCpu;
    if (!to_host && from_host) {
      stream_.CopyToDevice(to.raw(), from.raw(), from.bytes());
    } else if (to_host && !from_host) {
      stream_.CopyToHost(to.raw(), from.raw(), from.bytes());
    } else if (!to_host) {
      stream_.CopyOnDevice(to.raw(), from.raw(), from.bytes());
    } else {
      CopyElements(from, to);
    }
  }
  void Synchronize() override { stream_.Synchronize(); }
  std::unique_ptr<DeviceMark> Mark() override { return std::make_unique<CudaMark>(stream_); }
  double Timed(const std::function<void()>& enqueue) override {
    cuda::Event begin(stream_.device(), true), end(stream_.device(), true);
    cuda::Hold(stream_, 50e-6);  // the host is done with the rest by then
    begin.Record(stream_);
    enqueue();
    end.Record(stream_);
    end.Synchronize();
    return end.SecondsSince(begin);
  }
  std::unique_ptr<Recording> Record(const std::function<void()>& enqueue) override {
    return std::make_unique<CudaRecording>(stream_, enqueue);
  }

 private:
  cuda::Stream stream_;
};

class CudaBackend final : public DeviceBackend {
 public:
  explicit CudaBackend(Device device) : device_(device) {}
  Tensor Upload(const Tensor& host) override { return cuda::ToDevice(host, device_); }
  std::unique_ptr<DeviceQueue> MakeQueue() override {
    return std::make_unique<CudaQueue>(device_.index);
  }
  void CheckAddress(const void* data) override { cuda::CheckAddress(data, device_.index); }
  int64_t ThreadBytes() override { return cuda::ThreadDeviceBytes(); }

 private:
  Device device_;
};

std::mutex backend_mutex;
BackendOverride::Maker backend_override;

void CheckDevice(Device device) {
  if (!cuda::BuiltIn()) throw Error(ErrorCode::kUnsupported, "this build has no CUDA");
  std::string reason;
  const size_t count = cuda::Devices(&reason).size();
  if (device.index >= 0 && static_cast<size_t>(device.index) < count) return;
  throw Error(ErrorCode::kDevice,
              "there is no device " + device.ToString() + ": " +
                  (reason.empty() ? "the machine has " + std::to_string(count) : reason));
}

}  // namespace

std::unique_ptr<DeviceBackend> BackendOf(Device device) {
  {
    const std::lock_guard lock(backend_mutex);
    if (backend_override) return backend_override(device);
  }
  CheckDevice(device);
  return std::make_unique<CudaBackend>(device);
}

BackendOverride::BackendOverride(Maker make) {
  const std::lock_guard lock(backend_mutex);
  backend_override = std::move(make);
}

BackendOverride::~BackendOverride() {
  const std::lock_guard lock(backend_mutex);
  backend_override = nullptr;
}

}  // namespace oort
