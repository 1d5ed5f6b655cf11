// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace oort {

/// A list of a few plain things, for what runs in every Forward: only more than `kInside` of them
/// take memory from the heap.
template <typename T, size_t kInside>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  SmallVector() = default;
  explicit SmallVector(size_t count, const T& value = T()) {
    Grow(count);
    for (; size_ < count; ++size_) new (data() + size_) T(value);
  }
  template <typename Iterator>
  SmallVector(Iterator begin, Iterator end) {
    for (; begin != end; ++begin) push_back(*begin);
  }
  SmallVector(const SmallVector& other) : SmallVector(other.begin(), other.end()) {}
  SmallVector& operator=(const SmallVector&) = delete;

  void push_back(const T& value) { emplace_back(value); }
  template <typename... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    const T made(std::forward<Arguments>(arguments)...);  // may refer to what is in here
    if (size_ == capacity_) Grow(2 * capacity_);
    return *new (data() + size_++) T(made);
  }

  T* data() { return std::launder(reinterpret_cast<T*>(heap_ ? heap_.get() : inside_)); }
  const T* data() const {
    return std::launder(reinterpret_cast<const T*>(heap_ ? heap_.get() : inside_));
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

 private:
  static_assert(alignof(T) <= alignof(std::max_align_t));

  void Grow(size_t capacity) {
    if (capacity <= capacity_) return;
    auto larger = std::make_unique<std::byte[]>(capacity * sizeof(T));
    std::memcpy(larger.get(), data(), size_ * sizeof(T));
    heap_ = std::move(larger);
    capacity_ = capacity;
  }

  size_t size_ = 0, capacity_ = kInside;
  std::unique_ptr<std::byte[]> heap_;
  alignas(T) std::byte inside_[kInside * sizeof(T)];
};

}  // namespace oort
