// SPDX-License-Identifier: MIT
// The OpenAPI file describes the routes that there are, and no others.
#include "serve/routes.h"

#include <set>

#include "serve/served_model.h"

namespace oort::serve {
namespace {

TEST(OpenApi, DescribesEveryRouteAndNoOther) {
  const Fixture fixture;
  const Answer answer = fixture.Get("/openapi.json");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.Has("Content-Type: application/json\r\n"));
  const Json document = Json::parse(answer.body);
  EXPECT_EQ(document["openapi"], "3.1.0");
  std::set<std::string> described, served;
  for (const auto& [path, methods] : document["paths"].items()) {
    // What is behind a name is the route's own.
    const std::string begin = path.substr(0, path.find('}') + 1);
    for (const auto& [method, details] : methods.items()) {
      described.insert(method + " " + (begin.empty() ? path : begin));
    }
  }
  for (const Route& route : AllRoutes()) {
    std::string path(route.path);
    // A prefix stands for a name behind it.
    if (path.size() > 1 && path.ends_with('/')) path += "{name}";
    served.insert((route.method == "POST" ? "post " : "get ") + path);
  }
  EXPECT_EQ(described, served);
}

/// Every schema that is referred to is there.
TEST(OpenApi, RefersToNothingThatIsMissing) {
  const Fixture fixture;
  const Json document = Json::parse(fixture.Get("/openapi.json").body);
  const std::string text = document.dump();
  const std::string mark = "\"$ref\":\"#/components/schemas/";
  size_t count = 0;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    at += mark.size();
    const std::string name = text.substr(at, text.find('"', at) - at);
    EXPECT_TRUE(document["components"]["schemas"].contains(name)) << name;
    ++count;
  }
  EXPECT_GT(count, 40u);
}

}  // namespace
}  // namespace oort::serve
