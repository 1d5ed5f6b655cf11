// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "oort/runtime_graph.h"
#include "oort/tensor.h"

namespace oort {

/// Whether a processor of this instruction set multiplies in such a precision faster than in f32.
/// Without units bf16 is slower than f32, and f16 does not run at all.
bool HasUnits(Precision precision, Isa isa = DefaultIsa());

struct PrecisionTrial {
  Precision precision = Precision::kF32;
  double milliseconds = 0;  ///< of the fastest of a few runs
  /// Largest difference from f32 over the largest output in f32; infinite where numbers of another
  /// type, as places of maxima are, differ.
  double error = 0;
};

struct PrecisionSearch {
  Device device;
  Isa isa = DefaultIsa();
  int threads = 0;           ///< as in SessionOptions
  double most_error = 0.01;  ///< of PrecisionTrial
};

struct PrecisionChoice {
  PrecisionTrial chosen;
  std::vector<PrecisionTrial> trials;  ///< f32 first; those without units are not tried
  std::shared_ptr<const RuntimeGraph> graph;
};

/// Runs a model on `inputs` in each precision that the machine has units for and takes the fastest
/// whose error is small enough: f32 where none is. What other inputs lose may be more or less.
/// `load` builds the model; of two precisions at a time it is in memory.
PrecisionChoice ChoosePrecision(
    const std::function<std::shared_ptr<const RuntimeGraph>(Precision)>& load,
    const std::vector<Tensor>& inputs, const PrecisionSearch& search = {});

}  // namespace oort
