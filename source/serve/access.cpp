// SPDX-License-Identifier: MIT
#include "serve/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string>

#include "serve/http/head.h"

namespace oort::serve {
namespace {

/// "[::1]:8080" without its port.
std::string_view WithoutPort(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool IsSafe(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

/// What everybody may see: whether the server lives, and its page, which is no secret.
bool IsOpen(const http::Request& request) {
  const std::string_view path = request.path;
  return IsSafe(request.method) &&
         (path == "/health" || path == "/ready" || path == "/v2/health/live" || path == "/" ||
          path == "/favicon.ico" || path == "/dashboard" || path == "/images");
}

bool IsOwnOrigin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && origin.substr(scheme.size()) == host) return true;
  }
  return false;
}

/// Browsers say with one of these which page asks, also for a plain form of another site.
bool IsOfAPage(const http::Request& request) {
  return !request.Get("origin").empty() || !request.Get("referer").empty() ||
         !request.Get("sec-fetch-site").empty();
}

/// `curl -d` calls everything a form, which commands in the manuals of other servers leave so.
bool MayBeJson(const http::Request& request, std::string_view type) {
  if (http::EqualsIgnoringCase(type, "application/json")) return true;
  const bool curl =
      type.empty() || http::EqualsIgnoringCase(type, "application/x-www-form-urlencoded");
  return curl && !IsOfAPage(request);
}

/// Names of header fields with commas between them, no longer than a client needs.
bool AreNames(std::string_view list) {
  if (list.size() > 4096) return false;
  while (true) {
    const size_t comma = std::min(list.find(','), list.size());
    const size_t begin = std::min(list.find_first_not_of(" \t"), comma);
    const std::string_view name = list.substr(begin, comma - begin);
    if (!http::IsToken(name.substr(0, name.find_last_not_of(" \t") + 1))) return false;
    if (comma == list.size()) return true;
    list.remove_prefix(comma + 1);
  }
}

bool IsKnownOrigin(std::string_view origin, const AccessRules& rules) {
  return std::ranges::find(rules.origins, origin) != rules.origins.end();
}

}  // namespace

bool IsLoopback(std::string_view host) {
  if (http::EqualsIgnoringCase(host, "localhost") || host == "::1" || host == "[::1]") return true;
  // An address, not a name that begins like one: 127.example.com may be anybody's.
  in_addr address{};
  if (inet_pton(AF_INET, std::string(host).c_str(), &address) != 1) return false;
  return ntohl(address.s_addr) >> 24 == 127;
}

std::optional<openai::ApiError> CheckAccess(const http::Request& request,
                                            const AccessRules& rules) {
  const auto forbidden = [](std::string message, std::string code) {
    return openai::ApiError{403, std::move(message), "invalid_request_error", "", std::move(code)};
  };
  const std::string_view host = request.Get("host"), origin = request.Get("origin");
  if (rules.keys.empty()) {
    if (rules.loopback && !host.empty() && !IsLoopback(WithoutPort(host))) {
      return forbidden("the header Host names another machine: ask localhost", "wrong_host");
    }
    if (!origin.empty() && !IsSafe(request.method) && !IsOwnOrigin(origin, host) &&
        !IsKnownOrigin(origin, rules)) {
      return forbidden("pages of this origin may not ask: name it with --cors-origin",
                       "wrong_origin");
    }
  } else if (!IsOpen(request) && request.method != "OPTIONS" && KeyOf(request, rules) == 0) {
    return openai::ApiError{401,
                            "the API key is missing or wrong: send the header Authorization: "
                            "Bearer KEY",
                            "invalid_request_error", "", "invalid_api_key"};
  }
  if (request.method == "POST") {
    // A form of another site cannot send these types without asking first.
    const std::string_view type = request.Get("content-type");
    const std::string_view name = type.substr(0, type.find_first_of("; \t"));
    const bool tensors = request.path.starts_with("/v2/") &&
                         http::EqualsIgnoringCase(name, "application/octet-stream");
    if (!tensors && !MayBeJson(request, name)) {
      return openai::ApiError{415, "send JSON, with the header Content-Type: application/json"};
    }
    if (!request.Get("content-encoding").empty()) {
      return openai::ApiError{415, "send the body as it is, without Content-Encoding"};
    }
  }
  return {};
}

int KeyOf(const http::Request& request, const AccessRules& rules) {
  if (rules.keys.empty()) return 0;
  std::string_view word = request.Get("authorization");
  const size_t space = std::min(word.find(' '), word.size());
  if (http::EqualsIgnoringCase(word.substr(0, space), "bearer")) {
    word.remove_prefix(std::min(space + 1, word.size()));
  } else {
    word = request.Get("x-api-key");  // as Anthropic's clients send it
  }
  return rules.keys.Find(word);
}

std::vector<http::Field> CorsFields(const http::Request& request, const AccessRules& rules) {
  const std::string_view origin = request.Get("origin");
  if (origin.empty() || !IsKnownOrigin(origin, rules)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Access-Control-Expose-Headers",
           "X-Request-Id, Retry-After, X-Should-Retry, Inference-Header-Content-Length"},
          {"Vary", "Origin"}};
}

http::Response Preflight(const http::Request& request, const AccessRules& rules) {
  http::Response response{.status = 204, .type = "", .fields = CorsFields(request, rules)};
  response.fields.push_back({"Allow", "GET, HEAD, POST, OPTIONS"});
  if (response.fields.size() > 1) {
    response.fields.push_back({"Access-Control-Allow-Methods", "GET, POST"});
    // Clients send names of their own, as OpenAI's does: nothing here depends on a name.
    const std::string_view asked = request.Get("access-control-request-headers");
    const std::string_view known = "Authorization, Content-Type, X-Api-Key, X-Request-Id";
    response.fields.push_back(
        {"Access-Control-Allow-Headers", std::string(AreNames(asked) ? asked : known)});
    response.fields.push_back({"Access-Control-Max-Age", "600"});
  }
  return response;
}

}  // namespace oort::serve
