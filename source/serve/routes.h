// SPDX-License-Identifier: MIT
// Which address is answered by what.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/context.h"

namespace oort::serve {

/// An error as the body of one API's answer.
using ErrorForm = std::string (*)(const openai::ApiError&);

struct Route {
  std::string_view method;  ///< GET answers HEAD, too
  std::string_view path;    ///< with a '/' at its end: and all that begins so
  /// Runs on a worker where there is a body, else on the server's thread. What it throws is told to
  /// the asker.
  void (*answer)(Services&, http::Request, const Context&);
  /// An error that comes before it, in the form of its API.
  ErrorForm error_body = openai::ErrorBody;
  bool for_language_model = true;  ///< of POST: who is asked stands in the body
};

// Each file of routes has its own table.
std::span<const Route> OpenAiRoutes();
std::span<const Route> AnthropicRoutes();
std::span<const Route> OllamaRoutes();
std::span<const Route> EmbeddingRoutes();
std::span<const Route> RerankRoutes();
std::span<const Route> TextRoutes();
std::span<const Route> StateRoutes();
std::span<const Route> PageRoutes();
std::span<const Route> V2Routes();

/// Of all files.
std::vector<Route> AllRoutes();
/// The route for a request; null where there is none, `allowed` then names the methods that there
/// would be.
const Route* FindRoute(std::string_view method, std::string_view path, std::string& allowed);

/// How who asks at an address expects errors, whether there is something or not: as the route does
/// that is nearest.
ErrorForm ErrorFormOf(std::string_view path);

/// "a%2Fb" is "a/b".
std::string Unescaped(std::string_view text);

}  // namespace oort::serve
