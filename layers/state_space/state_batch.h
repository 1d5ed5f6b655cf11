// SPDX-License-Identifier: MIT
// The sequences of a run, for layers that keep a state of each.
#pragma once

#include <string>

#include "oort/kv_cache.h"
#include "oort/layer.h"
#include "oort/sequence_state.h"

namespace oort {

/// Of one layer of a model.
struct LayerState {
  int64_t layer = 0;
  int64_t inputs = -1, recurrence = -1;  ///< numbers that it needs; below 0: whatever there are
};

/// The caller's sequences, once they are known to be those of the rows of this run, and to have
/// states that fit.
inline std::span<const SequenceSlice> StatesOf(const Context& context, int64_t rows,
                                               const LayerState& needed) {
  const SequenceBatch* const batch = SequenceBatch::Of(context);
  if (batch == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "a layer with a state needs a SequenceBatch as RunOptions::state");
  }
  int64_t next = 0;
  for (const SequenceSlice& slice : batch->slices()) {
    if (slice.first != next || slice.count < 0 || slice.count > rows - next || slice.position < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the rows of a sequence of the batch are not the next ones");
    }
    next += slice.count;
    const StateShape shape = slice.state == nullptr ? StateShape{} : slice.state->shape();
    const auto fits = [](int64_t wanted, int64_t there) { return wanted < 0 || wanted == there; };
    if (needed.layer >= shape.layers || !fits(needed.inputs, shape.inputs) ||
        !fits(needed.recurrence, shape.recurrence)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a sequence of the batch has no state, or one of another model");
    }
  }
  if (next != rows) {
    throw Error(ErrorCode::kInvalidArgument, "the sequences of the batch have " +
                                                 std::to_string(next) + " rows, the input has " +
                                                 std::to_string(rows));
  }
  return batch->slices();
}

/// Throws unless a weight has that shape.
inline void RequireWeight(const Tensor& weight, const Shape& shape, const char* what) {
  if (weight.shape() == shape) return;
  throw Error(ErrorCode::kInvalidModel, std::string("expected ") + what + " " + shape.ToString() +
                                            ", got " + weight.ToString());
}

}  // namespace oort
