// SPDX-License-Identifier: MIT
// What operators that exchange numbers between ranks have in common.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/collective.h"
#include "oort/error.h"
#include "oort/layer.h"

namespace oort {

/// The ranks of a run. Throws where it has none: the graph is one rank's part of a model.
inline Collective& GroupOfRun() {
  Collective* const group = GroupScope::Current();
  if (group == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "this is one rank's part of a model: it runs together with the other ranks alone");
  }
  return *group;
}

/// From so many bytes on, ranks in one memory look at each other's numbers where they lie: waiting
/// for each other twice then costs less than a copy.
inline constexpr size_t kBytesToShare = size_t{32} << 10;

/// What messages call an operator: "oort.AllReduce 'model.layers.0.mlp.down_proj.sum'".
inline std::string NameInGroup(const LayerInit& init) {
  return init.type() + " '" + init.op().name + "'";
}

}  // namespace oort
