// SPDX-License-Identifier: MIT
// Operators that pnnx leaves in ATen's form are other names of those that it knows: the same
// arguments, in the order of ATen's schema, some of them perhaps computed while the model runs.
#pragma once

#include <string>
#include <vector>

#include "layers/composite/decomposition.h"

namespace oort {

/// One overload: the operator that it stands for, and how each argument gets there. A word of
/// `arguments` is the name that the argument has there, preceded by
///   *  for a tensor,
///   +  for a list of tensors,
///   -  where it changes nothing and is dropped,
///   !  where True is refused: it asks for what is done in training only.
/// A word with = is a parameter that the overload fixes.
struct AtenForm {
  std::string target;
  std::string arguments;
};

/// Declares `types` as decompositions into one operator. The number of inputs selects the overload;
/// the longest stands last.
void AddAtenForm(LayerRegistry& registry, std::vector<std::string> types,
                 std::vector<AtenForm> overloads, int min_outputs = 1, int max_outputs = 1);

}  // namespace oort
