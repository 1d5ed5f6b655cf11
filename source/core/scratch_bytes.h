// SPDX-License-Identifier: MIT
#pragma once

#include "core/scratch_vector.h"

namespace oort {

/// Memory of a ScratchVector that is not set to anything.
class ScratchBytes {
 public:
  explicit ScratchBytes(size_t count) : count_(count), bytes_(ScratchPool::Take(count)) {}
  ~ScratchBytes() { ScratchPool::Give(bytes_, count_); }
  ScratchBytes(const ScratchBytes&) = delete;
  ScratchBytes& operator=(const ScratchBytes&) = delete;
  std::byte* data() { return static_cast<std::byte*>(bytes_); }

 private:
  size_t count_;
  void* bytes_;
};

}  // namespace oort
