// SPDX-License-Identifier: MIT
#include "serve/access_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace oort::serve {
namespace {

TEST(AccessLog, IsOneLineOfJsonWhateverAClientSends) {
  http::Served served;
  served.method = "GET";
  served.path = "/a\"b\n\xff";
  served.peer = "::1";
  served.note = "request=17 key=2 tokens=5 error=queue_full words";
  served.status = 429;
  served.bytes = 12;
  served.seconds = 0.25;
  served.cut = true;
  const std::chrono::system_clock::time_point now(std::chrono::milliseconds(1'700'000'000'007));
  const std::string line = AccessLine(served, now);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "2023-11-14T22:13:20.007Z");
  EXPECT_EQ(json["path"], "/a\"b\n\xEF\xBF\xBD");
  EXPECT_EQ(json["peer"], "::1");
  EXPECT_EQ(json["request"], "17");  // a name, though of digits
  EXPECT_EQ(json["key"], 2);
  EXPECT_EQ(json["tokens"], 5);
  EXPECT_EQ(json["error"], "queue_full");
  EXPECT_EQ(json["status"], 429);
  EXPECT_EQ(json["ms"], 250);
  EXPECT_EQ(json["cut"], true);
  EXPECT_EQ(json.size(), 12u);
}

}  // namespace
}  // namespace oort::serve
