// SPDX-License-Identifier: MIT
// What stands for source/cuda in a build without CUDA.
#include "cuda/device.h"
#include "cuda/hold.h"
#include "cuda/memory.h"
#include "cuda/roofs.h"
#include "cuda/stream.h"

namespace oort::cuda {
namespace {

[[noreturn]] void ThrowNoCuda() { throw Error(ErrorCode::kUnsupported, "this build has no CUDA"); }

}  // namespace

bool BuiltIn() { return false; }

std::vector<DeviceInfo> Devices(std::string* reason) {
  *reason = "this build has no CUDA";
  return {};
}

std::string UuidOf(int) { ThrowNoCuda(); }

DeviceGuard::DeviceGuard(int) { ThrowNoCuda(); }
DeviceGuard::~DeviceGuard() = default;

Stream::Stream(int device) : device_(device), id_(0) { ThrowNoCuda(); }
Stream::~Stream() = default;
void Stream::Synchronize() {}
void Stream::Wait(const Event&) {}
bool Stream::Capturing() const { return false; }
void Stream::CopyToDevice(void*, const void*, size_t) {}
void Stream::CopyToHost(void*, const void*, size_t) {}
void Stream::CopyOnDevice(void*, const void*, size_t) {}
void Stream::Fill(void*, int, size_t) {}

Event::Event(int, bool) { ThrowNoCuda(); }
Event::~Event() = default;
void Event::Record(const Stream&) {}
void Event::Synchronize() const {}
bool Event::Passed() const { return true; }
double Event::SecondsSince(const Event&) const { return 0; }

RecordedGraph::RecordedGraph(Stream&, const std::function<void()>&) { ThrowNoCuda(); }
RecordedGraph::~RecordedGraph() = default;
void RecordedGraph::Launch(Stream&) const {}

std::shared_ptr<Buffer> AllocateDevice(size_t, int) { ThrowNoCuda(); }
std::shared_ptr<Buffer> AllocateDevice(size_t, const Stream&) { ThrowNoCuda(); }
std::shared_ptr<Buffer> AllocatePinned(size_t) { ThrowNoCuda(); }
Tensor DeviceTensor(DType, const Shape&, Device) { ThrowNoCuda(); }
Tensor ToDevice(const Tensor&, Device) { ThrowNoCuda(); }
Tensor ToHost(const Tensor& device) { return device; }  // there are none but on the host
void Upload(void*, const void*, size_t, int) { ThrowNoCuda(); }
void CheckAddress(const void*, int) { ThrowNoCuda(); }
int64_t ThreadDeviceBytes() { return 0; }
MemoryStatistics Statistics(int) { return {}; }
void Trim(int) {}
FreeMemory MemoryOf(int) { ThrowNoCuda(); }
Roofs MeasureRoofs(int) { ThrowNoCuda(); }
void Hold(const Stream&, double) {}

}  // namespace oort::cuda
