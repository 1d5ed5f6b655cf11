// SPDX-License-Identifier: MIT
#include "core/thread_budget.h"

#include <algorithm>

#include "core/cpu_limits.h"

namespace oort {

ThreadBudget& ThreadBudget::Global() {
  static ThreadBudget budget(AvailableThreads());
  return budget;
}

void ThreadBudget::Change(int threads, int sign) {
  const int wanted = std::clamp(threads, 1, kMost);
  const std::lock_guard lock(mutex_);
  wanting_[static_cast<size_t>(wanted)] += sign;
  running_ += sign;
  total_ += sign * wanted;
  cap_.store(NeededCap(), std::memory_order_relaxed);
}

int ThreadBudget::NeededCap() const {
  if (running_ <= 1 || total_ <= processors_) return kUnlimited;
  int cap = 1, used = running_, above = running_;
  while (cap < kMost) {
    above -= wanting_[static_cast<size_t>(cap)];  // those who want more than `cap`
    if (used + above > processors_) break;
    used += above;
    ++cap;
  }
  return cap;
}

ThreadShare::~ThreadShare() {
  if (has_run_) budget_->Depart();
}

void ThreadShare::Enter(int threads) {
  has_run_ = true;
  budget_->Enter(threads);
  const int allowed = budget_->cap();
  const bool expected_again = budget_->departures() == departures_;
  SetCap(expected_again ? std::min(allowed, lowest_) : allowed);
  lowest_ = allowed;
}

void ThreadShare::Leave(int threads) {
  budget_->Leave(threads);
  departures_ = budget_->departures();
}

int ThreadShare::Cap() {
  const int allowed = budget_->cap();
  if (allowed <= cap_) {
    if (allowed < cap_ || may_rise_) SetCap(allowed);
    lowest_ = std::min(lowest_, allowed);
  } else if (!may_rise_) {
    may_rise_ = true;
    could_rise_since_ = now_();
  } else if (now_() - could_rise_since_ >= kPatience) {
    SetCap(allowed);
    lowest_ = allowed;
  }
  return cap_;
}

void ThreadShare::SetCap(int cap) {
  cap_ = cap;
  may_rise_ = false;
}

}  // namespace oort
