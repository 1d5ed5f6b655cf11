// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "oort/layer.h"
#include "type_ring.h"

namespace oort::fuzz {

/// Writes models of one to three operators, the first of a given type: as its schema wants it to
/// be, more or less, on inputs of a few elements.
class ModelGenerator {
 public:
  explicit ModelGenerator(const LayerRegistry& registry)
      : registry_(registry), types_(registry.Types()) {}
  /// The text of a .param.
  std::string Generate(const std::string& type, Random& random) const;

 private:
  const LayerRegistry& registry_;
  TypeRing types_;
};

}  // namespace oort::fuzz
