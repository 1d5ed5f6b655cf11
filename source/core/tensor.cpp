// SPDX-License-Identifier: MIT
#include "oort/tensor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

#include "core/checked.h"
#include "core/dispatch.h"
#include "core/exact_buffers.h"
#include "core/host_memory.h"
#include "core/memory_budget.h"

namespace oort {
namespace {

constexpr size_t kAlignment = 64;

// An aligned operator new is not used: glibc asks for a little more than the block that was freed a
// moment ago, so a result of the same size in every call would take fresh pages again and again.
// AddressSanitizer gets it all the same: only then does it see the first byte behind the tensor.
#ifdef OORT_EXACT_BUFFERS
std::byte* AllocateBlock(size_t size) {
  return static_cast<std::byte*>(
      ::operator new (std::max<size_t>(size, 1), std::align_val_t{kAlignment}, std::nothrow));
}
void FreeBytes(void* block) { ::operator delete (block, std::align_val_t{kAlignment}); }
#else
std::byte* AllocateBlock(size_t size) {
  if (size > std::numeric_limits<size_t>::max() - kAlignment) return nullptr;
  return static_cast<std::byte*>(::operator new(size + kAlignment, std::nothrow));
}
void FreeBytes(void* block) { ::operator delete(block); }
#endif

std::byte* AlignUp(std::byte* block) {
  const auto misaligned = reinterpret_cast<uintptr_t>(block) % kAlignment;
  return misaligned == 0 ? block : block + (kAlignment - misaligned);
}

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(size_t size)
      : Buffer(nullptr, size, Device::Cpu()), account_(MemoryBudget::Current()) {
    if (account_) account_->Take(size);
    block_ = AllocateBlock(size);
    if (block_ == nullptr) {
      if (account_) account_->GiveBack(size);
      throw Error::OutOfMemory();
    }
    data_ = AlignUp(block_);
    CountHostBytes(static_cast<int64_t>(size));
  }
  ~HostBuffer() override {
    FreeBytes(block_);
    CountHostBytes(-static_cast<int64_t>(size_));
    if (account_) account_->GiveBack(size_);
  }

 private:
  std::shared_ptr<MemoryAccount> account_;  // null where nobody counts
  std::byte* block_;
};

class BorrowedBuffer final : public Buffer {
 public:
  BorrowedBuffer(void* data, size_t size)
      : Buffer(static_cast<std::byte*>(data), size, Device::Cpu()) {}
};

size_t CheckedBytes(DType dtype, int64_t elements) {
  return CheckedMultiply(static_cast<size_t>(elements), ItemSize(dtype));
}

}  // namespace

std::string Device::ToString() const {
  return type == DeviceType::kCpu ? "cpu" : "cuda:" + std::to_string(index);
}

std::shared_ptr<Buffer> AllocateHost(size_t bytes) {
  try {
    return std::make_shared<HostBuffer>(bytes);
  } catch (const std::bad_alloc&) {
    throw Error::OutOfMemory();
  }
}

Tensor::Tensor(DType dtype, Shape shape) : Tensor(Meta(dtype, shape)) {
  buffer_ = AllocateHost(CheckedBytes(dtype, elements_));
}

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<Buffer> buffer, size_t offset)
    : Tensor(Meta(dtype, shape)) {
  if (!buffer || !InRange(offset, CheckedBytes(dtype, elements_), buffer->size())) {
    throw Error(ErrorCode::kInvalidArgument, "a tensor " + ToString() + " does not fit its buffer");
  }
  buffer_ = std::move(buffer);
  offset_ = offset;
}

Tensor Tensor::Meta(DType dtype, Shape shape) {
  Tensor tensor;
  tensor.elements_ = shape.elements();
  CheckedBytes(dtype, tensor.elements_);
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::Zeros(DType dtype, Shape shape) {
  Tensor tensor(dtype, shape);
  std::memset(tensor.raw(), 0, tensor.bytes());
  return tensor;
}

Tensor Tensor::Borrow(void* data, DType dtype, Shape shape) {
  Tensor tensor = Meta(dtype, shape);
  if (data == nullptr && tensor.elements_ != 0) {
    throw Error(ErrorCode::kInvalidArgument, "Tensor::Borrow: null for " + tensor.ToString());
  }
  tensor.buffer_ = std::make_shared<BorrowedBuffer>(data, tensor.bytes());
  return tensor;
}

namespace {

void CheckOnHost(const Tensor& tensor) {
  if (tensor.device().type == DeviceType::kCpu) return;
  throw Error(ErrorCode::kInvalidArgument, "the elements of " + tensor.ToString() + " are on " +
                                               tensor.device().ToString() + ", not on the host");
}

}  // namespace

double Tensor::Item() const {
  if (elements_ != 1 || !has_data()) {
    throw Error(ErrorCode::kInvalidArgument, "expected one element, got " + ToString());
  }
  CheckOnHost(*this);
  return VisitDType(dtype_, [&](auto tag) {
    return ConvertElement<double>(*reinterpret_cast<const typename decltype(tag)::Type*>(raw()));
  });
}

Tensor Tensor::Reshaped(Shape shape) const {
  if (shape.elements() != elements_) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot view " + ToString() + " as shape " + shape.ToString());
  }
  Tensor tensor = *this;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  if (rank() == 0 || begin < 0 || end < begin || end > shape_[0]) {
    throw Error(ErrorCode::kInvalidArgument, "no rows [" + std::to_string(begin) + ", " +
                                                 std::to_string(end) + ") in " + ToString());
  }
  const int64_t row = shape_.Product(1, rank());
  Tensor tensor = *this;
  tensor.shape_[0] = end - begin;
  tensor.elements_ = (end - begin) * row;
  tensor.offset_ += static_cast<size_t>(begin * row) * ItemSize(dtype_);
  return tensor;
}

Tensor Tensor::Clone() const {
  if (!has_data()) return *this;
  CheckOnHost(*this);
  Tensor copy(dtype_, shape_);
  if (bytes() != 0) std::memcpy(copy.raw(), raw(), bytes());
  return copy;
}

Tensor Tensor::To(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (storage() == Storage::kPromised) {
    throw Error(ErrorCode::kInvalidArgument,
                "the elements of " + ToString() + " are not made yet, so they cannot be converted");
  }
  if (!has_data()) return Meta(dtype, shape_);
  Tensor converted(dtype, shape_);
  CopyElements(*this, converted);
  return converted;
}

std::string Tensor::ToString() const { return shape_.ToString() + std::string(Name(dtype_)); }

void Tensor::CheckType(DType wanted) const {
  if (wanted != dtype_) {
    throw Error(ErrorCode::kInvalidArgument,
                "a tensor " + ToString() + " read as " + std::string(Name(wanted)));
  }
}

void CopyElements(const Tensor& from, Tensor& to) {
  if (!(from.shape() == to.shape()) || !from.has_data() || !to.has_data()) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot copy " + from.ToString() + " to " + to.ToString());
  }
  CheckOnHost(from);
  CheckOnHost(to);
  if (from.dtype() == to.dtype()) {
    if (from.bytes() != 0) std::memmove(to.raw(), from.raw(), from.bytes());
    return;
  }
  const int64_t count = from.elements();
  VisitDType(from.dtype(), [&](auto from_tag) {
    VisitDType(to.dtype(), [&](auto to_tag) {
      using From = typename decltype(from_tag)::Type;
      using To = typename decltype(to_tag)::Type;
      const From* source = reinterpret_cast<const From*>(from.raw());
      To* target = reinterpret_cast<To*>(to.raw());
      for (int64_t i = 0; i < count; ++i) target[i] = ConvertElement<To>(source[i]);
    });
  });
}

}  // namespace oort
