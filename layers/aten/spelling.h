// SPDX-License-Identifier: MIT
// Operators that pnnx leaves in ATen's form are other spellings of those that it names: the same
// arguments, in the order of ATen's schema, some of them perhaps computed while the model runs.
#pragma once

#include <string>
#include <vector>

#include "layers/composite/composite.h"

namespace oort {

/// One overload: the operator that it stands for, and how each argument gets there. A word of
/// `arguments` is the name that the argument has there, preceded by
///   *  for a tensor,
///   +  for a list of tensors,
///   -  where it changes nothing and is dropped,
///   !  where True is refused: it asks for what is done in training only.
/// A word with = is a parameter that the overload fixes.
struct Spelling {
  std::string target;
  std::string arguments;
};

/// Declares `types`. The number of inputs selects the overload; the longest stands last. Where an
/// argument is computed, the layer is made when the value is there.
void AddSpelling(LayerRegistry& registry, std::vector<std::string> types,
                 std::vector<Spelling> overloads, int min_outputs = 1, int max_outputs = 1);

/// Makes parts of operators while a model runs.
class PartMaker {
 public:
  explicit PartMaker(const LayerInit& init);
  Part operator()(Part::Spec spec) const;

 private:
  Operator op_;
  Isa isa_;
  Device device_;
};

/// A parameter that was an operand: a tensor of one element is its number. Deferred where that is
/// not known yet.
Value ParameterOf(const Value& value);

}  // namespace oort
