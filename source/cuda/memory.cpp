// SPDX-License-Identifier: MIT
#include "cuda/memory.h"

#include <map>
#include <mutex>

#include "cuda/error.h"
#include "cuda/host/block_cache.h"
#include "cuda/live_streams.h"
#include "cuda/staging.h"
#include "cuda/stream.h"

namespace oort::cuda {
namespace {

class StreamFence final : public Fence {
 public:
  StreamFence(int device, uint64_t stream) : event_(device), stream_(stream) { Record(); }
  bool Passed() override {
    // An event that was recorded while the stream was captured would belong to the graph.
    if (!recorded_) Record();
    return gone_ || (recorded_ && event_.Passed());
  }

 private:
  void Record() {
    gone_ = !LiveStreams::With(stream_, [this](cudaStream_t stream) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      Check(cudaStreamIsCapturing(stream, &status), "asking a stream");
      if (status != cudaStreamCaptureStatusNone) return;
      Check(cudaEventRecord(event_.get(), stream), "recording an event");
      recorded_ = true;
    });
  }
  Event event_;
  uint64_t stream_;
  bool recorded_ = false, gone_ = false;
};

class DeviceMemory final : public RawMemory {
 public:
  explicit DeviceMemory(int device) : device_(device) {}
  void* Allocate(size_t bytes) override {
    const DeviceGuard guard(device_);
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    Check(error, "asking the GPU for memory");
    return data;
  }
  void Free(void* segment) override { cudaFree(segment); }
  std::unique_ptr<Fence> Mark(uint64_t stream) override {
    try {
      return std::make_unique<StreamFence>(device_, stream);
    } catch (const Error&) {
      return nullptr;  // the device is lost, and all work with it
    }
  }
  void Finish() override {
    const DeviceGuard guard(device_);
    cudaDeviceSynchronize();
  }

 private:
  int device_;
};

struct DeviceCache {
  explicit DeviceCache(int device) : memory(device), cache(memory) {}
  DeviceMemory memory;
  BlockCache cache;
};

BlockCache& CacheOf(int device) {
  // Never destroyed: the driver may be gone before static objects are.
  static std::mutex* const mutex = new std::mutex;
  static auto* const caches = new std::map<int, std::unique_ptr<DeviceCache>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<DeviceCache>& entry = (*caches)[device];
  if (!entry) entry = std::make_unique<DeviceCache>(device);
  return entry->cache;
}

thread_local int64_t t_device_bytes = 0;

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(size_t size, int device, uint64_t stream)
      : Buffer(nullptr, size, Device::Cuda(device)), cache_(CacheOf(device)) {
    data_ = static_cast<std::byte*>(cache_.Allocate(size, stream));
    t_device_bytes += static_cast<int64_t>(size);
  }
  ~DeviceBuffer() override {
    cache_.Free(data_);
    t_device_bytes -= static_cast<int64_t>(size_);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

 private:
  BlockCache& cache_;
};

class PinnedBuffer final : public Buffer {
 public:
  explicit PinnedBuffer(size_t size) : Buffer(nullptr, size, Device::Cpu()) {
    void* data = nullptr;
    // Portable: every device of the process may copy from it.
    Check(cudaHostAlloc(&data, size == 0 ? 1 : size, cudaHostAllocPortable),
          "asking for pinned memory");
    data_ = static_cast<std::byte*>(data);
  }
  ~PinnedBuffer() override { cudaFreeHost(data_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
};

}  // namespace

std::shared_ptr<Buffer> AllocateDevice(size_t bytes, int device) {
  return std::make_shared<DeviceBuffer>(bytes, device, 0);
}

std::shared_ptr<Buffer> AllocateDevice(size_t bytes, const Stream& stream) {
  return std::make_shared<DeviceBuffer>(bytes, stream.device(), stream.id());
}

std::shared_ptr<Buffer> AllocatePinned(size_t bytes) {
  return std::make_shared<PinnedBuffer>(bytes);
}

Tensor DeviceTensor(DType dtype, const Shape& shape, Device device) {
  const Tensor meta = Tensor::Meta(dtype, shape);
  return Tensor(dtype, shape, AllocateDevice(meta.bytes(), device.index));
}

Tensor ToDevice(const Tensor& host, Device device) {
  if (!host.has_data() || host.device() == device) return host;
  if (host.device().type == DeviceType::kCuda) return ToDevice(ToHost(host), device);
  Tensor copy = DeviceTensor(host.dtype(), host.shape(), device);
  Upload(copy.raw(), host.raw(), host.bytes(), device.index);
  return copy;
}

Tensor ToHost(const Tensor& device) {
  if (!device.has_data() || device.device().type == DeviceType::kCpu) return device;
  Tensor copy(device.dtype(), device.shape());
  if (copy.bytes() == 0) return copy;
  const DeviceGuard guard(device.device().index);
  Check(cudaMemcpy(copy.raw(), device.raw(), copy.bytes(), cudaMemcpyDeviceToHost),
        "copying from the GPU");
  return copy;
}

void Upload(void* to, const void* from, size_t bytes, int device) {
  StagingRing::Of(device).Upload(to, from, bytes);
}

void CheckAddress(const void* data, int device) {
  const DeviceGuard guard(device);
  cudaPointerAttributes attributes{};
  Check(cudaPointerGetAttributes(&attributes, data), "looking at an address");
  const bool on_a_gpu =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  if (on_a_gpu && attributes.device == device) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the address is in memory of " +
                  (on_a_gpu ? Device::Cuda(attributes.device).ToString() : "the host") +
                  ", not of " + Device::Cuda(device).ToString());
}

int64_t ThreadDeviceBytes() { return t_device_bytes; }
MemoryStatistics Statistics(int device) { return CacheOf(device).Statistics(); }
void Trim(int device) { CacheOf(device).Trim(); }

FreeMemory MemoryOf(int device) {
  const DeviceGuard guard(device);
  FreeMemory memory;
  Check(cudaMemGetInfo(&memory.free, &memory.total), "asking for the memory of the GPU");
  return memory;
}

}  // namespace oort::cuda
