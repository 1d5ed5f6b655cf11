// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "oort/c.h"

namespace oort::testing {

/// Frees an error, and has what it said.
struct Failure {
  oort_error* error = nullptr;
  ~Failure() { oort_error_free(error); }
  std::string message() const { return oort_error_message(error); }
  oort_error** slot() {
    oort_error_free(error);
    error = nullptr;
    return &error;
  }
};

}  // namespace oort::testing
