// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "oort/device.h"
#include "oort/dtype.h"
#include "oort/error.h"
#include "oort/shape.h"

namespace oort {

/// Bytes somewhere, and the duty to give them back. Those of a promise are not there yet.
class Buffer {
 public:
  virtual ~Buffer() = default;
  std::byte* data() const { return data_; }  ///< null for a promise
  bool promised() const { return promised_; }
  size_t size() const { return size_; }
  Device device() const { return device_; }

 protected:
  Buffer(std::byte* data, size_t size, Device device) : data_(data), size_(size), device_(device) {}
  /// A promise of `size` bytes on the host, which somebody makes later.
  explicit Buffer(size_t size) : data_(nullptr), size_(size), promised_(true) {}
  std::byte* data_;
  size_t size_;
  Device device_;
  bool promised_ = false;
};

/// What there is of a tensor besides its dtype and shape.
enum class Storage {
  kNone,      ///< nothing: Tensor::Meta
  kPromised,  ///< elements that are made later, when a model is built or written
  kElements,  ///< elements to read
};

/// Host memory aligned to 64 bytes, not initialized. Throws kOutOfMemory.
std::shared_ptr<Buffer> AllocateHost(size_t bytes);

/// A dense row-major array. Copying a Tensor shares its elements; Clone() copies them.
/// Thread contract: as for a shared_ptr to an array. Reading from several threads is fine;
/// writing elements needs the caller's own synchronization.
class Tensor {
 public:
  /// Holds nothing: dtype kNull. defined() is false.
  Tensor() = default;
  /// Allocates host memory, not initialized.
  Tensor(DType dtype, Shape shape);
  /// `offset` bytes into `buffer`; throws where the elements do not fit.
  Tensor(DType dtype, Shape shape, std::shared_ptr<Buffer> buffer, size_t offset = 0);

  static Tensor Zeros(DType dtype, Shape shape);
  /// A shape and a dtype without elements: what shape inference passes around.
  static Tensor Meta(DType dtype, Shape shape);
  /// Uses the caller's memory without copying; it must outlive every copy of the Tensor.
  static Tensor Borrow(void* data, DType dtype, Shape shape);
  template <typename T>
  static Tensor Borrow(T* data, Shape shape) {
    return Borrow(static_cast<void*>(data), kDTypeOf<T>, shape);
  }
  /// Like Borrow, for memory that nobody will write to. Oort only reads inputs and weights.
  static Tensor BorrowConst(const void* data, DType dtype, Shape shape) {
    return Borrow(const_cast<void*>(data), dtype, shape);
  }
  /// Copies `values`; their number must be that of the shape.
  template <typename T>
  static Tensor From(std::span<const T> values, Shape shape);
  template <typename T>
  static Tensor From(std::initializer_list<T> values, Shape shape) {
    return From(std::span<const T>(values.begin(), values.size()), shape);
  }
  /// A rank-0 tensor.
  template <typename T>
  static Tensor Scalar(T value) {
    return From<T>({value}, Shape{});
  }

  bool defined() const { return dtype_ != DType::kNull; }
  /// Whether there are elements to read: false for Meta, and for a promise until it is kept.
  bool has_data() const { return storage() == Storage::kElements; }
  Storage storage() const {
    if (buffer_ == nullptr) return Storage::kNone;
    return buffer_->promised() ? Storage::kPromised : Storage::kElements;
  }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  /// Extent of an axis; negative axes count from the end.
  int64_t dim(int64_t axis) const { return shape_[NormalizeAxis(axis, rank())]; }
  int64_t elements() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * ItemSize(dtype_); }
  Device device() const { return buffer_ ? buffer_->device() : Device::Cpu(); }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  size_t offset() const { return offset_; }

  /// Null where there are no elements.
  std::byte* raw() { return has_data() ? buffer_->data() + offset_ : nullptr; }
  const std::byte* raw() const { return has_data() ? buffer_->data() + offset_ : nullptr; }
  /// Throws kInvalidArgument when T is not the element type.
  template <typename T>
  T* data() {
    CheckType(kDTypeOf<T>);
    return reinterpret_cast<T*>(raw());
  }
  template <typename T>
  const T* data() const {
    CheckType(kDTypeOf<T>);
    return reinterpret_cast<const T*>(raw());
  }
  template <typename T>
  std::span<const T> span() const {
    return {data<T>(), static_cast<size_t>(elements_)};
  }
  /// The only element, converted; throws unless there is exactly one.
  double Item() const;

  /// The same elements under another shape of the same count.
  Tensor Reshaped(Shape shape) const;
  /// Rows [begin, end) of axis 0, sharing the elements.
  Tensor Rows(int64_t begin, int64_t end) const;
  Tensor Clone() const;
  /// Converts as torch's .to(); shares the elements when the dtype is already right.
  Tensor To(DType dtype) const;
  std::string ToString() const;  ///< "(1,3,224,224)f32"

 private:
  void CheckType(DType wanted) const;
  DType dtype_ = DType::kNull;
  Shape shape_;
  int64_t elements_ = 0;
  std::shared_ptr<Buffer> buffer_;
  size_t offset_ = 0;
};

/// Copies and converts all elements of `from` into `to`; the shapes must be the same.
void CopyElements(const Tensor& from, Tensor& to);

template <typename T>
Tensor Tensor::From(std::span<const T> values, Shape shape) {
  Tensor tensor(kDTypeOf<T>, shape);
  if (static_cast<int64_t>(values.size()) != tensor.elements()) {
    throw Error(ErrorCode::kInvalidArgument, "Tensor::From: " + std::to_string(values.size()) +
                                                 " values for shape " + shape.ToString());
  }
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor;
}

}  // namespace oort
