// SPDX-License-Identifier: MIT
// Attributes that are made when they are written or packed, so that a model need never be in memory
// whole.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "oort/tensor.h"

namespace oort {

/// Makes several tensors at once, and keeps them until each was taken.
class Promise {
 public:
  using Make = std::function<std::vector<Tensor>()>;
  /// `count` tensors will be asked for.
  Promise(size_t count, Make make) : count_(count), make_(std::move(make)) {}

  Tensor Take(size_t index) {
    if (made_.empty()) made_ = make_();
    Tensor tensor = made_.at(index);
    made_[index] = Tensor();
    if (++taken_ == count_) {
      made_.clear();
      taken_ = 0;
    }
    return tensor;
  }

 private:
  size_t count_, taken_ = 0;
  Make make_;
  std::vector<Tensor> made_;
};

/// The buffer of tensors with Storage::kPromised: their elements are made by Take, when a model is
/// built (runtime/promised_weights.h) or written.
class PromisedBuffer final : public Buffer {
 public:
  PromisedBuffer(std::shared_ptr<Promise> promise, size_t index, size_t bytes)
      : Buffer(bytes), promise_(std::move(promise)), index_(index) {}

  Tensor Take() const { return promise_->Take(index_); }
  const Promise* promise() const { return promise_.get(); }

  /// The promise of a tensor; null for all with another storage.
  static const PromisedBuffer* Of(const Tensor& tensor) {
    if (tensor.storage() != oort::Storage::kPromised) return nullptr;
    return dynamic_cast<const PromisedBuffer*>(tensor.buffer().get());
  }
  static Tensor Make(DType dtype, const Shape& shape, std::shared_ptr<Promise> promise,
                     size_t index) {
    const size_t bytes = CheckedMultiply(static_cast<size_t>(shape.elements()), ItemSize(dtype));
    return {dtype, shape, std::make_shared<PromisedBuffer>(std::move(promise), index, bytes)};
  }

 private:
  std::shared_ptr<Promise> promise_;
  size_t index_;
};

}  // namespace oort
