// SPDX-License-Identifier: MIT
// What the runtime asks of a device other than the host. A test puts one in the place of CUDA's
// whose memory is the host's.
#pragma once

#include <functional>
#include <memory>

#include "oort/layer.h"

namespace oort {

/// Work that was recorded once and is enqueued again as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void Launch() = 0;
};

/// A place in the order of a queue.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  /// Until all that was enqueued before is done; throws what went wrong in it.
  virtual void Wait() = 0;
};

/// Where a session enqueues its work: all of it in order.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  /// Null where layers need none.
  virtual cuda::Stream* stream() = 0;
  /// Makes the device that of this thread until what is returned is gone.
  virtual std::shared_ptr<void> Enter() = 0;
  /// Memory for work in this queue.
  virtual std::shared_ptr<Buffer> Allocate(size_t bytes) = 0;
  /// Between host and device, either way, or within the device. A copy to the host is done after
  /// Synchronize; the source of one to the device is read before the call returns, unless pinned.
  virtual void Copy(const Tensor& from, Tensor& to) = 0;
  virtual void Synchronize() = 0;
  /// Behind what was enqueued so far; null where that is done already.
  virtual std::unique_ptr<DeviceMark> Mark() = 0;
  /// Seconds that the device takes for what `enqueue` enqueues; waits for it.
  virtual double Timed(const std::function<void()>& enqueue) = 0;
  /// Throws where what `enqueue` does cannot be recorded.
  virtual std::unique_ptr<Recording> Record(const std::function<void()>& enqueue) = 0;
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  /// A copy on the device, for everybody; done on return.
  virtual Tensor Upload(const Tensor& host) = 0;
  virtual std::unique_ptr<DeviceQueue> MakeQueue() = 0;
  /// Throws kInvalidArgument where it can tell that this is no memory of the device.
  virtual void CheckAddress(const void*) {}
  /// Bytes on the device that this thread took and did not give back.
  virtual int64_t ThreadBytes() = 0;
};

/// Throws kDevice (kUnsupported in a build without CUDA) where there is no such device.
std::unique_ptr<DeviceBackend> BackendOf(Device device);

/// As long as it lives, BackendOf calls `make`: for tests, one at a time.
class BackendOverride {
 public:
  using Maker = std::function<std::unique_ptr<DeviceBackend>(Device device)>;
  explicit BackendOverride(Maker make);
  ~BackendOverride();
  BackendOverride(const BackendOverride&) = delete;
  BackendOverride& operator=(const BackendOverride&) = delete;
};

}  // namespace oort
