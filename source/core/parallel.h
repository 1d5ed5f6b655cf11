// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>

namespace oort {

/// Cores that this process may use: the affinity mask and the container's quota count.
int AvailableThreads();

/// Runs body(begin, end) over [0, count) on at most `threads` threads, in pieces of at least
/// `grain`. With one piece it runs right here, without touching a thread. The first exception
/// that a body throws is rethrown once all pieces have ended.
void ParallelFor(int threads, int64_t count, int64_t grain,
                 const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace oort
