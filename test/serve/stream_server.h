// SPDX-License-Identifier: MIT
// A server of HTTP that says what it was asked, and what its tests say to it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/http/server.h"
#include "serve/raw_client.h"

namespace oort::serve::http {

using namespace std::chrono_literals;
using Answer = RawClient::Answer;

/// What a test waits for at most. Nothing here depends on how long it really takes.
inline constexpr auto kMost = 30s;

inline bool Eventually(const std::function<bool()>& is) {
  const auto end = std::chrono::steady_clock::now() + kMost;
  while (!is()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Says what it was asked: "POST /path?query body".
inline void Echo(const Request& request, const Reply& reply) {
  std::string query = request.query.empty() ? "" : "?" + request.query;
  reply.Send({.type = "text/plain",
              .body = request.method + ' ' + request.path + query + ' ' + request.body});
}

/// A server whose streams the test holds in its hands.
class StreamServer {
 public:
  explicit StreamServer(Limits limits = {})
      : server_({.limits = limits, .handle = [this](const Request& request, const Reply& reply) {
                   if (request.path != "/stream") return Echo(request, reply);
                   reply.OnGone([this] { ++gone_; });
                   const std::lock_guard lock(mutex_);
                   replies_.push_back(reply);
                 }}) {}
  Reply Next() {
    EXPECT_TRUE(Eventually([&] {
      const std::lock_guard lock(mutex_);
      return !replies_.empty();
    }));
    const std::lock_guard lock(mutex_);
    Reply reply = replies_.front();
    replies_.erase(replies_.begin());
    return reply;
  }
  Server& server() { return server_; }
  uint16_t port() const { return server_.port(); }
  int gone() const { return gone_; }

 private:
  std::mutex mutex_;
  std::vector<Reply> replies_;
  std::atomic<int> gone_ = 0;
  Server server_;  // the last: its thread uses the others
};

inline std::string Get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + more + "\r\n";
}

inline std::string Post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

}  // namespace oort::serve::http
