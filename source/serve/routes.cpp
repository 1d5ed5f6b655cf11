// SPDX-License-Identifier: MIT
#include "serve/routes.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace oort::serve {
namespace {

constexpr std::array kTables = {OpenAiRoutes,    EmbeddingRoutes, RerankRoutes,
                                AnthropicRoutes, OllamaRoutes,    TextRoutes,
                                StateRoutes,     V2Routes,        PageRoutes};

/// Clients whose base URL lacks the version ask for these; llama.cpp's server answers them, too.
constexpr std::string_view kWithoutVersion[] = {"/chat/completions", "/completions", "/embeddings",
                                                "/models",           "/rerank",      "/responses"};

/// An address as the tables have it.
std::string InFull(std::string_view path) {
  std::string full(path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path);
  if (std::ranges::find(kWithoutVersion, full) != std::end(kWithoutVersion)) full.insert(0, "/v1");
  return full;
}

/// With how many folders two addresses begin alike.
size_t SharedFolders(std::string_view a, std::string_view b) {
  size_t shared = 0;
  while (a.starts_with('/') && b.starts_with('/')) {
    const std::string_view first = a.substr(0, a.find('/', 1));
    if (first.size() == 1 || first != b.substr(0, b.find('/', 1))) break;
    ++shared;
    a.remove_prefix(first.size());
    b.remove_prefix(first.size());
  }
  return shared;
}

}  // namespace

std::vector<Route> AllRoutes() {
  std::vector<Route> routes;
  for (const auto table : kTables) {
    for (const Route& route : table()) routes.push_back(route);
  }
  return routes;
}

const Route* FindRoute(std::string_view method, std::string_view path, std::string& allowed) {
  if (method == "HEAD") method = "GET";
  const std::string bare = InFull(path);
  for (const auto table : kTables) {
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

ErrorForm ErrorFormOf(std::string_view path) {
  const std::string full = InFull(path);
  const Route* nearest = nullptr;
  size_t most = 0;
  for (const auto table : kTables) {
    for (const Route& route : table()) {
      const size_t shared = SharedFolders(full, route.path);
      const bool shorter = nearest != nullptr && route.path.size() < nearest->path.size();
      if (shared < most || shared == 0 || (shared == most && !shorter)) continue;
      nearest = &route;
      most = shared;
    }
  }
  return nearest == nullptr ? openai::ErrorBody : nearest->error_body;
}

std::string Unescaped(std::string_view text) {
  const auto digit = [](char c) {
    const char lower = static_cast<char>(c | 0x20);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    plain += escape ? static_cast<char>(16 * digit(text[i + 1]) + digit(text[i + 2])) : text[i];
    i += escape ? 2 : 0;
  }
  return plain;
}

}  // namespace oort::serve
