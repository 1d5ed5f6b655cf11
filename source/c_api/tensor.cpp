// SPDX-License-Identifier: MIT
// Tensors, in the host's memory and on GPUs.
#include "c_api/tensor.h"

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "c_api/border.h"
#include "runtime/device_backend.h"

namespace oort::c_api {
namespace {

/// Memory of the caller's, who hears when nobody uses it any more.
class CallersBuffer : public Buffer {
 public:
  CallersBuffer(void* data, size_t bytes, Device device)
      : Buffer(static_cast<std::byte*>(data), bytes, device) {}
  ~CallersBuffer() override {
    if (release_ != nullptr) release_(user_);
  }
  CallersBuffer(const CallersBuffer&) = delete;
  CallersBuffer& operator=(const CallersBuffer&) = delete;

  /// From here on; before, nothing is promised.
  void Release(oort_release release, void* user) {
    release_ = release;
    user_ = user;
  }

 private:
  oort_release release_ = nullptr;
  void* user_ = nullptr;
};

DType DTypeOf(oort_dtype dtype) {
  if (dtype <= 0 || dtype >= kDTypeCount) {
    throw Error(ErrorCode::kInvalidArgument,
                "dtype " + std::to_string(dtype) + " is none: see oort_dtype in oort/c_network.h");
  }
  return static_cast<DType>(dtype);
}

/// Kernels read whole numbers, a complex one as two. Throws where they would begin in the middle.
void CheckAligned(const void* data, DType dtype) {
  const size_t number = ItemSize(dtype) / (IsComplex(dtype) ? 2 : 1);
  const size_t off = reinterpret_cast<uintptr_t>(data) % number;
  if (off == 0) return;
  throw Error(ErrorCode::kInvalidArgument, "data of " + std::string(Name(dtype)) +
                                               " begins at a multiple of " +
                                               std::to_string(number) + " bytes, not " +
                                               std::to_string(off) + " behind one: copy it there");
}

Shape ShapeOf(int32_t rank, const int64_t* extents) {
  if (rank < 0 || rank > Shape::kMaxRank) {
    throw Error(ErrorCode::kInvalidArgument, "a tensor has rank 0 to " +
                                                 std::to_string(Shape::kMaxRank) + ", not " +
                                                 std::to_string(rank));
  }
  if (rank > 0) Need(extents, "extents");
  Shape shape(std::span(extents, static_cast<size_t>(rank)));
  shape.elements();  // throws for what is no shape
  return shape;
}

Tensor ZerosOf(oort_dtype dtype, int32_t rank, const int64_t* extents, oort_tensor** tensor) {
  Need(tensor, "tensor");
  *tensor = nullptr;
  const Shape shape = ShapeOf(rank, extents);
  return Tensor::Zeros(DTypeOf(dtype), shape);
}

struct GivenMemory {
  void* data;
  size_t bytes;
  Device device;
};

void Borrow(oort_dtype dtype, int32_t rank, const int64_t* extents, const GivenMemory& memory,
            oort_release release, void* user, oort_tensor** tensor) {
  Need(tensor, "tensor");
  *tensor = nullptr;
  const Shape shape = ShapeOf(rank, extents);
  const DType type = DTypeOf(dtype);
  const bool on_host = memory.device == Device::Cpu();
  const std::unique_ptr<DeviceBackend> backend = on_host ? nullptr : BackendOf(memory.device);
  if (shape.elements() > 0) {
    Need(memory.data, "data");
    CheckAligned(memory.data, type);
    if (backend) backend->CheckAddress(memory.data);
  }
  static char nothing;  // where there are no elements, data may be null, but a tensor has data
  auto buffer = std::make_shared<CallersBuffer>(memory.data ? memory.data : &nothing, memory.bytes,
                                                memory.device);
  auto made = std::make_unique<oort_tensor>();
  made->tensor = Tensor(type, shape, buffer);
  buffer->Release(release, user);
  *tensor = made.release();
}

/// Either may be on a GPU, or both on the same or on two.
void CopyTensor(const Tensor& from, Tensor& to) {
  if (from.dtype() != to.dtype() || !(from.shape() == to.shape())) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot copy " + from.ToString() + " to " + to.ToString());
  }
  const Device device = to.device() == Device::Cpu() ? from.device() : to.device();
  if (device == Device::Cpu()) {
    CopyElements(from, to);
    return;
  }
  const std::unique_ptr<DeviceQueue> queue = BackendOf(device)->MakeQueue();
  const std::shared_ptr<void> scope = queue->Enter();
  queue->Copy(from, to);
  queue->Synchronize();
}

}  // namespace
}  // namespace oort::c_api

using oort::c_api::AtBorder;
using oort::c_api::Need;

const char* oort_dtype_name(oort_dtype dtype) {
  const bool known = dtype >= 0 && dtype < oort::kDTypeCount;
  return oort::Name(known ? static_cast<oort::DType>(dtype) : oort::DType::kNull).data();
}

size_t oort_dtype_size(oort_dtype dtype) {
  const bool known = dtype > 0 && dtype < oort::kDTypeCount;
  return known ? oort::ItemSize(static_cast<oort::DType>(dtype)) : 0;
}

oort_code oort_tensor_new(oort_dtype dtype, int32_t rank, const int64_t* extents,
                          oort_tensor** tensor, oort_error** error) {
  return AtBorder(error, [&] {
    oort::Tensor zeros = oort::c_api::ZerosOf(dtype, rank, extents, tensor);
    *tensor = new oort_tensor{std::move(zeros)};
  });
}

oort_code oort_tensor_new_cuda(int32_t device, oort_dtype dtype, int32_t rank,
                               const int64_t* extents, oort_tensor** tensor, oort_error** error) {
  return AtBorder(error, [&] {
    const oort::Tensor zeros = oort::c_api::ZerosOf(dtype, rank, extents, tensor);
    *tensor = new oort_tensor{oort::BackendOf(oort::Device::Cuda(device))->Upload(zeros)};
  });
}

oort_code oort_tensor_borrow(oort_dtype dtype, int32_t rank, const int64_t* extents, void* data,
                             size_t bytes, oort_release release, void* user, oort_tensor** tensor,
                             oort_error** error) {
  return AtBorder(error, [&] {
    const oort::c_api::GivenMemory memory{data, bytes, oort::Device::Cpu()};
    oort::c_api::Borrow(dtype, rank, extents, memory, release, user, tensor);
  });
}

oort_code oort_tensor_borrow_cuda(int32_t device, oort_dtype dtype, int32_t rank,
                                  const int64_t* extents, void* data, size_t bytes,
                                  oort_release release, void* user, oort_tensor** tensor,
                                  oort_error** error) {
  return AtBorder(error, [&] {
    const oort::c_api::GivenMemory memory{data, bytes, oort::Device::Cuda(device)};
    oort::c_api::Borrow(dtype, rank, extents, memory, release, user, tensor);
  });
}

oort_code oort_tensor_copy(const oort_tensor* from, oort_tensor* to, oort_error** error) {
  return AtBorder(error, [&] {
    Need(from, "from");
    Need(to, "to");
    oort::c_api::CopyTensor(from->tensor, to->tensor);
  });
}

oort_dtype oort_tensor_dtype(const oort_tensor* tensor) {
  return tensor == nullptr ? OORT_UNKNOWN : static_cast<oort_dtype>(tensor->tensor.dtype());
}

int32_t oort_tensor_rank(const oort_tensor* tensor) {
  return tensor == nullptr ? 0 : tensor->tensor.rank();
}

const int64_t* oort_tensor_extents(const oort_tensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->tensor.shape().begin();
}

void* oort_tensor_data(const oort_tensor* tensor) {
  return tensor == nullptr ? nullptr : const_cast<std::byte*>(tensor->tensor.raw());
}

size_t oort_tensor_bytes(const oort_tensor* tensor) {
  return tensor == nullptr ? 0 : tensor->tensor.bytes();
}

int32_t oort_tensor_cuda_device(const oort_tensor* tensor) {
  const bool on_a_gpu =
      tensor != nullptr && tensor->tensor.device().type == oort::DeviceType::kCuda;
  return on_a_gpu ? tensor->tensor.device().index : -1;
}

void oort_tensor_free(oort_tensor* tensor) { delete tensor; }
