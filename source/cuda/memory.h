// SPDX-License-Identifier: MIT
// Memory of a GPU and copies to and from it. No CUDA type is in here; in a build without CUDA all
// of it throws kUnsupported.
#pragma once

#include <memory>

#include "cuda/host/statistics.h"
#include "oort/tensor.h"

namespace oort::cuda {

class Stream;

/// Memory of a GPU from a cache, aligned to 512, not initialized. All work on it must be done
/// before the last owner lets go of it. Throws kOutOfMemory.
std::shared_ptr<Buffer> AllocateDevice(size_t bytes, int device);
/// The same for work in one stream only, which need not be done when the buffer is let go of.
std::shared_ptr<Buffer> AllocateDevice(size_t bytes, const Stream& stream);
/// Host memory that copies to and from a GPU run beside the host's work.
std::shared_ptr<Buffer> AllocatePinned(size_t bytes);

/// A tensor on the GPU, not initialized.
Tensor DeviceTensor(DType dtype, const Shape& shape, Device device);
/// A copy on the GPU, complete on return; what is there already is returned as it is.
Tensor ToDevice(const Tensor& host, Device device);
/// A copy in host memory, complete on return; what is there already is returned as it is. Work that
/// writes the tensor must be done.
Tensor ToHost(const Tensor& device);
/// Copies bytes through pinned memory; complete on return.
void Upload(void* to, const void* from, size_t bytes, int device);

/// Throws kInvalidArgument where this is no memory of that GPU: such as host memory, or another's.
void CheckAddress(const void* data, int device);

/// Bytes on all devices that this thread took, less those that it gave back.
int64_t ThreadDeviceBytes();
MemoryStatistics Statistics(int device);
/// Gives memory that is kept for the next allocation back to the GPU.
void Trim(int device);

struct FreeMemory {
  size_t free = 0, total = 0;  ///< bytes, of the whole GPU
};
FreeMemory MemoryOf(int device);

}  // namespace oort::cuda
