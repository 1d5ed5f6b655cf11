// SPDX-License-Identifier: MIT
// The one routine that moves elements between two strided views.
#pragma once

#include <cstddef>

#include "layers/device_kernel.h"
#include "layers/shape/strided.h"
#include "oort/layer.h"

namespace oort {

/// One loop of a copy; strides in bytes.
struct CopyLoop {
  int64_t extent, source, target;
};

/// Moves `item` bytes for each element of the loops, outermost first.
void CopyStridedOnDevice(cuda::Stream&, size_t item, std::span<const CopyLoop> loops,
                         const std::byte* source, std::byte* target) OORT_CUDA_ONLY;

/// target[to] = source[from] for elements of `item` bytes (1, 2, 4, 8 or 16). The views have the
/// same extents; no element of `to` occurs twice; the buffers do not overlap.
void CopyStrided(const Context& context, size_t item, const std::byte* source, const Strided& from,
                 std::byte* target, const Strided& to);

/// Gathers the view into dense memory.
inline void CopyStrided(const Context& context, size_t item, const std::byte* source,
                        const Strided& from, std::byte* target) {
  CopyStrided(context, item, source, from, target, Strided::DenseLike(from));
}

/// Copies `bytes` bytes, on several threads where they are many; none where both are the same.
void CopyBytes(const Context& context, const std::byte* source, std::byte* target, size_t bytes);

/// Writes zeros.
void ClearBytes(const Context& context, std::byte* target, size_t bytes);

/// Writes `count` copies of the `item` bytes at `pattern`, which is on the host.
void FillItemsOnDevice(cuda::Stream&, std::byte* target, const std::byte* pattern, size_t item,
                       int64_t count) OORT_CUDA_ONLY;

/// Writes `count` copies of the `item` bytes at `pattern`, which may lie at `target` itself.
void FillItems(std::byte* target, const std::byte* pattern, size_t item, int64_t count);

}  // namespace oort
