// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "type_ring.h"

namespace oort::fuzz {

/// Changes a .param word by word, so that the rest of the model stays whole and the change reaches
/// the operator that it is meant for.
class ParamMutator {
 public:
  /// `types`: operator types to put in the place of others.
  explicit ParamMutator(TypeRing types) : types_(std::move(types)) {}
  std::string Mutate(const std::string& text, Random& random) const;

 private:
  using Words = std::vector<std::string>;
  void MutateOnce(std::vector<Words>& lines, Random& random) const;

  TypeRing types_;
};

}  // namespace oort::fuzz
