// SPDX-License-Identifier: MIT
// The scale, and minimum, with which a few weights are stored in fewer bits and change least.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "oort/dtype.h"
#include "weights/weight_format.h"

namespace oort {

/// The numbers q that a format stores: [least, most], and what is added when they are written.
struct CodeRange {
  int least = 0, most = 0, offset = 0;
};

/// A group as scale * q + minimum.
struct GroupFit {
  float scale = 0, minimum = 0;
};

/// The q whose number is nearest.
int NearestCode(float x, const GroupFit& fit, const CodeRange& codes);

/// The squared error of a group whose numbers all have their nearest q. `importance` says what an
/// error of each number weighs; empty: all weigh 1.
double FitError(std::span<const float> x, std::span<const float> importance, const GroupFit& fit,
                const CodeRange& codes);

/// How groups of a format are fitted.
struct FitRules {
  CodeRange codes;
  bool symmetric = true;          ///< there is no minimum
  bool search = true;             ///< else the largest number decides: enough with 8 bits
  bool falling_minimum = false;   ///< minimums are 0 or below
  std::optional<DType> stored{};  ///< scales and minimums are rounded to it; unset: not at all
};

/// The fit with the smallest squared error of those tried.
GroupFit FitGroup(std::span<const float> x, std::span<const float> importance,
                  const FitRules& rules);

}  // namespace oort
