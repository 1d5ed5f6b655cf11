// SPDX-License-Identifier: MIT
#include "serve/routes.h"

namespace oort::serve {

const Route* FindRoute(std::string_view method, std::string_view path, std::string& allowed) {
  if (method == "HEAD") method = "GET";
  const std::string_view bare =
      path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  for (const auto table :
       {OpenAiRoutes, AnthropicRoutes, OllamaRoutes, TextRoutes, StateRoutes, PageRoutes}) {
    for (const Route& route : table()) {
      const bool prefix = route.path.size() > 1 && route.path.ends_with('/');
      const bool fits = prefix ? bare.starts_with(route.path) : bare == route.path;
      if (!fits) continue;
      if (method == route.method) return &route;
      if (!allowed.empty()) allowed += ", ";
      allowed += route.method == "GET" ? "GET, HEAD" : route.method;
    }
  }
  return nullptr;
}

}  // namespace oort::serve
