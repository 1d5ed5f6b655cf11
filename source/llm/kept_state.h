// SPDX-License-Identifier: MIT
// States of sequences where several ranks compute them: rank 0 decides what becomes of them, and
// the others do as it did.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "oort/kv_cache.h"
#include "oort/sequence_state.h"

namespace oort {

/// What a rank has to do with a state before the next step: make it as a copy of another one or,
/// where there is none, let go of it. Those that begin are not told: steps at position 0 make them.
struct StateChange {
  int64_t state = -1;
  int64_t from = -1;
  friend bool operator==(const StateChange&, const StateChange&) = default;
};

/// Numbers of states, and what has become of them since the other ranks were told.
/// Thread contract: one thread at a time.
class StateLog {
 public:
  int64_t Begin();
  int64_t BeginAsCopy(int64_t from);
  void End(int64_t state) noexcept;
  /// What others have not been told yet, in order.
  std::vector<StateChange> Take();

 private:
  std::vector<StateChange> changes_;  // with room for the end of each state that there is
  int64_t next_ = 0, live_ = 0;
};

/// The state of a sequence as rank 0, or the only one, keeps it.
class KeptState final : public SequenceState {
 public:
  /// `log`: null where there are no other ranks.
  KeptState(const StateShape& shape, std::shared_ptr<StateLog> log);
  ~KeptState();
  KeptState& operator=(const KeptState&) = delete;
  /// The same at the same position, for another sequence that goes on from there.
  std::unique_ptr<KeptState> Clone() const;

  /// By which other ranks know it; below 0: there are none.
  int64_t number() const { return number_; }

 private:
  KeptState(const KeptState& other);

  std::shared_ptr<StateLog> log_;
  int64_t number_ = -1;
};

/// States on the other ranks, by the numbers that rank 0 gave them.
/// Thread contract: one thread at a time.
class FollowedStates {
 public:
  explicit FollowedStates(const StateShape& shape) : shape_(shape) {}

  /// Throws kDevice where what rank 0 says makes no sense.
  void Change(std::span<const StateChange> changes);
  /// That of a sequence at this position.
  SequenceState* At(int64_t number, int64_t position);
  size_t size() const { return states_.size(); }

 private:
  StateShape shape_;
  std::map<int64_t, SequenceState> states_;
};

}  // namespace oort
