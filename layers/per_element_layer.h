// SPDX-License-Identifier: MIT
#pragma once

#include "oort/layer.h"

namespace oort {

/// A layer whose work grows with its first argument: `flops` operations for each element.
template <int flops>
class PerElementLayer : public Layer {
 public:
  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    if (args[0].IsTensor()) cost.flops = flops * static_cast<double>(args.tensor(0).elements());
    return cost;
  }
};

}  // namespace oort
