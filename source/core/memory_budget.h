// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace oort {

/// Bytes of host buffers that are alive, and how many may be.
struct MemoryAccount {
  explicit MemoryAccount(size_t most) : limit(most) {}
  /// Throws kLimit where they would be too many.
  void Take(size_t bytes);
  void GiveBack(size_t bytes) { used.fetch_sub(bytes, std::memory_order_relaxed); }

  const size_t limit;
  std::atomic<size_t> used = 0;
};

/// As long as it lives, every buffer that this thread allocates counts against a limit, whoever
/// asks for it: outputs that only Forward knows the size of, and what layers need on the way.
class MemoryBudget {
 public:
  /// `used`: bytes that are taken already. A limit of 0 is none.
  explicit MemoryBudget(size_t limit, size_t used = 0);
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// That of this thread; null where there is no limit.
  static const std::shared_ptr<MemoryAccount>& Current();

 private:
  std::shared_ptr<MemoryAccount> outer_;
};

}  // namespace oort
