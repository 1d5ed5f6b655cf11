// SPDX-License-Identifier: MIT
#include "llm/kept_state.h"

#include <string>
#include <utility>

#include "oort/error.h"

namespace oort {

int64_t StateLog::Begin() {
  changes_.reserve(changes_.size() + static_cast<size_t>(live_) + 1);
  ++live_;
  return next_++;
}

int64_t StateLog::BeginAsCopy(int64_t from) {
  changes_.reserve(changes_.size() + static_cast<size_t>(live_) + 2);
  ++live_;
  changes_.push_back({next_, from});
  return next_++;
}

void StateLog::End(int64_t state) noexcept {
  --live_;
  changes_.push_back({state, -1});
}

std::vector<StateChange> StateLog::Take() {
  std::vector<StateChange> next;
  next.reserve(static_cast<size_t>(live_));
  return std::exchange(changes_, std::move(next));
}

KeptState::KeptState(const StateShape& shape, std::shared_ptr<StateLog> log)
    : SequenceState(shape), log_(std::move(log)), number_(log_ ? log_->Begin() : -1) {}

KeptState::KeptState(const KeptState& other)
    : SequenceState(other),
      log_(other.log_),
      number_(log_ ? log_->BeginAsCopy(other.number_) : -1) {}

KeptState::~KeptState() {
  if (log_) log_->End(number_);
}

std::unique_ptr<KeptState> KeptState::Clone() const {
  return std::unique_ptr<KeptState>(new KeptState(*this));
}

void FollowedStates::Change(std::span<const StateChange> changes) {
  for (const StateChange& change : changes) {
    if (change.from < 0) {
      states_.erase(change.state);  // one of a step that never ran is not there
      continue;
    }
    const auto from = states_.find(change.from);
    if (from == states_.end() || !states_.try_emplace(change.state, from->second).second) {
      throw Error(ErrorCode::kDevice, "rank 0 copies a state of a sequence that is not there");
    }
  }
}

SequenceState* FollowedStates::At(int64_t number, int64_t position) {
  if (number < 0) return nullptr;
  const auto found = states_.find(number);
  if (found != states_.end()) return &found->second;
  if (position != 0) {
    throw Error(ErrorCode::kDevice, "rank 0 goes on from a state of a sequence that is not there");
  }
  return &states_.try_emplace(number, shape_).first->second;
}

}  // namespace oort
