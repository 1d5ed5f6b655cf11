// SPDX-License-Identifier: MIT
// Who may ask what: keys, and what browsers say about the page that a request comes from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "openai/request_error.h"
#include "serve/api_keys.h"
#include "serve/http/message.h"

namespace oort::serve {

struct AccessRules {
  ApiKeys keys;
  /// The server can be reached from this machine alone. Without keys, a page of another site whose
  /// name was made to point here must not use it: requests have to name this machine.
  bool loopback = true;
  std::vector<std::string> origins;  ///< sites whose pages may ask, "https://example.org"
};

/// Whether an address is one of this machine that no other can reach.
bool IsLoopback(std::string_view host);

/// What keeps a request from being answered, or nothing. It looks at the head alone.
std::optional<openai::ApiError> CheckAccess(const http::Request& request, const AccessRules& rules);

/// The number of the key that a request brings, or 0.
int KeyOf(const http::Request& request, const AccessRules& rules);

/// The header fields that let a page of the request's origin read the answer; none where it may
/// not.
std::vector<http::Field> CorsFields(const http::Request& request, const AccessRules& rules);

/// What answers OPTIONS.
http::Response Preflight(const http::Request& request, const AccessRules& rules);

}  // namespace oort::serve
