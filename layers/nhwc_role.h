// SPDX-License-Identifier: MIT
// Roles that operators of several families have in the NHWC pass (see OperatorSchema::HasNhwcForm).
#pragma once

#include <algorithm>
#include <string_view>

#include "oort/schema.h"

namespace oort {

/// A parameter as it is written, or `fallback` where it is absent.
inline std::string_view ParamText(const Operator& op, const char* name, std::string_view fallback) {
  const auto found = op.params.find(name);
  return found == op.params.end() ? fallback : std::string_view(found->second.text());
}

/// Whether the axis `dim` is stated: one that is computed, or that torch finds by an old rule of
/// its own, cannot be counted in another layout.
inline bool HasKnownAxis(const Operator& op) {
  const bool computed =
      std::find(op.input_names.begin(), op.input_names.end(), "dim") != op.input_names.end();
  return !computed && ParamText(op, "dim", "None") != "None";
}

/// The role of operators that work along one axis, such as torch.cat.
inline NhwcRole FollowsAlongKnownAxis(const Operator& op, int) {
  return HasKnownAxis(op) ? NhwcRole::kFollows : NhwcRole::kNone;
}

}  // namespace oort
