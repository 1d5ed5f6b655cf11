// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace oort::cuda {

/// Which streams exist, so that memory can be given back after the stream that used it is gone.
struct LiveStreams {
  static void Add(uint64_t id, cudaStream_t stream);
  /// Runs `destroy` while nobody else can use the stream.
  static void Remove(uint64_t id, const std::function<void()>& destroy);
  /// Calls `use` with the stream, which stays meanwhile; false if it is gone, and with it its work.
  static bool With(uint64_t id, const std::function<void(cudaStream_t)>& use);
};

}  // namespace oort::cuda
