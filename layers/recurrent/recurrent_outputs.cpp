// SPDX-License-Identifier: MIT
#include "layers/recurrent/recurrent_outputs.h"

#include <algorithm>

namespace oort {
namespace {

/// Loosely, what is unknown on one side fits all.
bool Fits(const Operand& traced, const Shape& shape, bool loosely) {
  if (!traced.has_shape || traced.shape == shape) return true;
  if (!loosely || traced.shape.rank() != shape.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t a = traced.shape[axis], b = shape[axis];
    if (a != b && a != Shape::kUnknown && b != Shape::kUnknown) return false;
  }
  return true;
}

/// What is known of the input: its traced shape, or the rank of an output.
Shape InputHint(const Operand* input, std::span<const Operand* const> outputs) {
  if (input != nullptr && input->has_shape) return input->shape;
  Shape unknown{Shape::kUnknown, Shape::kUnknown};
  if (!outputs[0]->has_shape || outputs[0]->shape.rank() == 3) unknown.Append(Shape::kUnknown);
  return unknown;
}

}  // namespace

Shape RecurrentSizes::OutputShape(RecurrentOutput output, const Shape& input) const {
  Shape shape = input;
  if (output == RecurrentOutput::kSequence) {
    shape[shape.rank() - 1] = state * directions;
    return shape;
  }
  if (shape.rank() == 3) shape[1] = input[batch_first ? 0 : 1];
  shape[0] = cells();
  shape[shape.rank() - 1] = output == RecurrentOutput::kCell ? hidden : state;
  return shape;
}

std::vector<RecurrentOutput> MatchRecurrentOutputs(const RecurrentSizes& sizes,
                                                   const Operand* input,
                                                   std::span<const Operand* const> outputs) {
  using enum RecurrentOutput;
  const Shape hint = InputHint(input, outputs);
  std::vector<RecurrentOutput> roles = {kSequence, kHidden};
  if (sizes.has_cell) roles.push_back(kCell);
  const auto count = static_cast<std::ptrdiff_t>(outputs.size());
  const std::vector<RecurrentOutput> usual(roles.begin(), roles.begin() + count);
  if (hint.rank() < 2 || hint.rank() > 3) return usual;  // an input that is refused later
  // Without a batch, a trace lists the states first.
  const std::vector<RecurrentOutput> states_first = {kHidden, kCell, kSequence};
  for (const bool loosely : {false, true}) {
    const auto fits = [&](const std::vector<RecurrentOutput>& order) {
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!Fits(*outputs[i], sizes.OutputShape(order[i], hint), loosely)) return false;
      }
      return true;
    };
    if (hint.rank() == 2 && count == 3 && fits(states_first)) return states_first;
    std::vector<RecurrentOutput> order = roles;
    do {
      if (fits(order)) return {order.begin(), order.begin() + count};
    } while (std::next_permutation(order.begin(), order.end()));
  }
  return usual;
}

}  // namespace oort
