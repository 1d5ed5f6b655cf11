// SPDX-License-Identifier: MIT
// The memory of language models that keep no keys and values: numbers of a fixed size that stand
// for all tokens so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "oort/tensor.h"

namespace oort {

/// What a sequence keeps in f32 for each layer that has a state: the last inputs of its short
/// convolution, (taps - 1, channels), and of each head of its recurrence a matrix (head_dim, size).
struct StateShape {
  int64_t layers = 0;                  ///< 0: the model has none
  int64_t inputs = 0, recurrence = 0;  ///< numbers of a layer

  /// Of one sequence; throws kLimit where that is more than can be counted.
  size_t bytes() const;
  friend bool operator==(const StateShape&, const StateShape&) = default;
};

/// The state of one sequence, which it has for itself: it stands for one position, and what came
/// before that cannot be had again. A step that begins at position 0 reads nothing of it, so it
/// holds nothing of whoever had its memory before.
/// Thread contract: one thread at a time; layers write different parts.
class SequenceState {
 public:
  explicit SequenceState(const StateShape& shape);
  /// The same numbers in memory of its own, for another sequence that goes on from there.
  SequenceState(const SequenceState& other);
  SequenceState& operator=(const SequenceState&) = delete;

  const StateShape& shape() const { return shape_; }
  float* Inputs(int64_t layer) const { return At(layer); }
  float* Recurrence(int64_t layer) const { return At(layer) + shape_.inputs; }

  /// Whether a step ended in the middle: some layers have read tokens that others have not.
  bool torn = false;

 private:
  float* At(int64_t layer) const {
    return reinterpret_cast<float*>(memory_->data()) + layer * (shape_.inputs + shape_.recurrence);
  }

  StateShape shape_;
  std::shared_ptr<Buffer> memory_;
};

}  // namespace oort
