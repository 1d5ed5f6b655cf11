// SPDX-License-Identifier: MIT
// What those who answer requests share.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "oort/engine_loop.h"
#include "openai/generate_call.h"
#include "serve/http/server.h"
#include "serve/metrics.h"
#include "serve/workers.h"

namespace oort::serve {

/// What lives as long as the server.
struct Services {
  openai::ServedModel served;
  openai::Limits limits;
  EngineLoop& loop;
  Metrics& metrics;
  Workers& workers;
  std::chrono::seconds most_time{600};  ///< for one request
  std::chrono::milliseconds quiet_time{15'000};
  std::string version;
  bool page = true;
  std::function<int()> connections;  ///< that are open
  int64_t started = std::chrono::duration_cast<std::chrono::seconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  std::atomic<bool> draining = false;
};

/// One request that is being answered. Cheap to copy but for the request, which is moved out.
struct Context {
  http::Reply reply;
  std::string id;                   ///< names the request in logs and to the client
  int key = 0;                      ///< the number of the API key, from 1; 0: none was needed
  std::vector<http::Field> fields;  ///< of every response to it

  /// The whole response.
  void Send(int status, std::string body, std::string type = "application/json") const;
  /// An error, with the header fields that go with its status; `body` is it in the API's form.
  void SendError(const openai::ApiError& error, std::string body) const;
  void SendError(const openai::ApiError& error) const;
};

/// The error for a request that finds no room.
openai::ApiError QueueFull(const std::string& message);
openai::ApiError ShuttingDown();

}  // namespace oort::serve
