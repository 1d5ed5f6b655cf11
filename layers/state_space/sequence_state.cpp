// SPDX-License-Identifier: MIT
#include "oort/sequence_state.h"

#include <cstring>

#include "core/checked.h"

namespace oort {

size_t StateShape::bytes() const {
  const int64_t numbers = CheckedMultiply(CheckedAdd(inputs, recurrence), layers);
  return CheckedMultiply(static_cast<size_t>(numbers), sizeof(float));
}

SequenceState::SequenceState(const StateShape& shape)
    : shape_(shape), memory_(AllocateHost(shape.bytes())) {}

SequenceState::SequenceState(const SequenceState& other)
    : torn(other.torn), shape_(other.shape_), memory_(AllocateHost(shape_.bytes())) {
  std::memcpy(memory_->data(), other.memory_->data(), shape_.bytes());
}

}  // namespace oort
