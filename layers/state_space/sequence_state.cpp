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

std::unique_ptr<SequenceState> SequenceState::Clone() const {
  auto copy = std::make_unique<SequenceState>(shape_);
  std::memcpy(copy->memory_->data(), memory_->data(), memory_->size());
  copy->torn = torn;
  return copy;
}

}  // namespace oort
