// SPDX-License-Identifier: MIT
// Attributes that are made when they are written or packed, so that a model need never be in memory
// whole.
#pragma once

#include <cstdint>
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
  /// The same of rows [begin, end) alone.
  using MakeRows = std::function<std::vector<Tensor>(int64_t begin, int64_t end)>;
  /// `count` tensors will be asked for. `rows`: who needs a part of them need not make them whole.
  Promise(size_t count, Make make, MakeRows rows = nullptr)
      : count_(count), make_(std::move(make)), rows_(std::move(rows)) {}

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
  bool has_rows() const { return rows_ != nullptr; }
  Tensor Rows(size_t index, int64_t begin, int64_t end) const {
    return rows_(begin, end).at(index);
  }

 private:
  size_t count_, taken_ = 0;
  Make make_;
  MakeRows rows_;
  std::vector<Tensor> made_;
};

/// The buffer of tensors with Storage::kPromised: their elements are made by Take, when a model is
/// built (runtime/promised_weights.h) or written.
class PromisedBuffer final : public Buffer {
 public:
  PromisedBuffer(std::shared_ptr<Promise> promise, size_t index, size_t bytes)
      : Buffer(bytes), promise_(std::move(promise)), index_(index) {}

  Tensor Take() const { return promise_->Take(index_); }
  /// Rows [begin, end), in memory of their own or as a view.
  Tensor Rows(int64_t begin, int64_t end) const {
    if (promise_->has_rows()) return promise_->Rows(index_, begin, end);
    return Take().Rows(begin, end).Clone();  // the rest is let go of
  }
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
