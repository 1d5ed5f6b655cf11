// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat_template/ast.h"

namespace oort::jinja {

/// The whole template; throws an Error with the line.
Template ParseTemplate(std::string_view source);

/// What can only be seen when all is read: unknown filters and tests, breaks outside of loops. Part
/// of ParseTemplate.
void CheckTemplate(const Body& body);
/// Fills Statement::unset; returns the template's own. Part of ParseTemplate.
std::vector<std::string> MarkUnset(const Body& body);

}  // namespace oort::jinja
