// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "core/problems.h"
#include "oort/graph.h"

namespace oort {

/// A problem that one operator has; `message` need not name it.
inline Problem ProblemOf(const Operator& op, std::string_view message,
                         ErrorCode code = ErrorCode::kInvalidModel) {
  return {code, op.Describe() + ": " + std::string(message), Shorten(op.name), Shorten(op.type),
          op.line};
}

}  // namespace oort
