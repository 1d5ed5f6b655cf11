// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "llm/jinja/ast.h"

namespace oort::jinja {

/// The whole template; throws an Error with the line.
Body ParseTemplate(std::string_view source);

/// What can only be seen when all is read: unknown filters and tests, breaks outside of loops. Part
/// of ParseTemplate.
void CheckTemplate(const Body& body);

}  // namespace oort::jinja
