// SPDX-License-Identifier: MIT
#include "core/memory_budget.h"

#include <string>
#include <utility>

#include "oort/error.h"

namespace oort {
namespace {

thread_local std::shared_ptr<MemoryAccount> current_account;

}  // namespace

void MemoryAccount::Take(size_t bytes) {
  const size_t before = used.fetch_add(bytes, std::memory_order_relaxed);
  if (before <= limit && bytes <= limit - before) return;
  used.fetch_sub(bytes, std::memory_order_relaxed);
  throw Error(ErrorCode::kLimit, "activations need " + std::to_string(bytes) + " bytes more than " +
                                     std::to_string(before) + ", over the limit of " +
                                     std::to_string(limit));
}

MemoryBudget::MemoryBudget(size_t limit, size_t used) : outer_(current_account) {
  auto account = limit == 0 ? nullptr : std::make_shared<MemoryAccount>(limit);
  if (account) account->used = used;
  current_account = std::move(account);
}

MemoryBudget::~MemoryBudget() { current_account = std::move(outer_); }

const std::shared_ptr<MemoryAccount>& MemoryBudget::Current() { return current_account; }

}  // namespace oort
