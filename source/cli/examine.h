// SPDX-License-Identifier: MIT
// Everything that keeps a model from running, found without stopping at the first.
#pragma once

#include <string>
#include <vector>

#include "cli/model.h"
#include "oort/oort.h"

namespace oort::cli {

/// The same thing wrong in one or more places.
struct Finding {
  bool unknown_operator = false;
  Problem first;
  std::string message;  ///< without the place
  int count = 0;
  std::vector<std::string> similar;
};

struct Diagnosis {
  std::vector<Finding> findings;
  size_t operators = 0, types = 0, places = 0;
  std::string weights;  ///< "checked", "damaged", "missing", "none needed" or "not reached"
  std::vector<std::string> notes;  ///< what a user should know of a model that runs
};

/// Works without the .bin, as far as can be told then.
Diagnosis Examine(const ModelFiles& files, LoadOptions load);

}  // namespace oort::cli
