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
#include "serve/encoder_loop.h"
#include "serve/failure_log.h"
#include "serve/graph_models.h"
#include "serve/http/server.h"
#include "serve/metrics.h"
#include "serve/model_pool.h"
#include "serve/workers.h"

namespace oort::serve {

/// A model as lists show it.
struct ListedModel {
  std::string name;
  std::vector<std::string> aliases;
  std::string base;  ///< of an adapter: the model that it changes
  ModelState state = ModelState::kLoaded;
  size_t bytes = 0;  ///< that it holds
  // What is known once it was loaded; else zero or empty.
  int64_t context = 0;
  size_t file_bytes = 0;
  std::string family, fingerprint;
  bool reads_pictures = false;
};

/// What those who answer need: of one model, and of the server.
struct Services {
  // Of routes without a body these are the first model's. If that is not loaded `served` has its
  // names and no model, and there is no loop.
  openai::ServedModel served;
  EngineLoop* loop = nullptr;
  int64_t most_waiting = INT64_MAX;  ///< requests, for the loop
  Metrics& metrics;
  // The same for all models.
  openai::Limits limits;
  Workers& workers;
  EncoderLoop* encoder = nullptr;       ///< where there is one
  EncoderLoop* reranker = nullptr;      ///< likewise
  std::chrono::seconds most_time{600};  ///< for one request
  std::chrono::milliseconds quiet_time{15'000};
  std::string version;
  bool page = true;
  std::function<int()> connections;  ///< that are open
  std::function<std::vector<ListedModel>()> models;
  ModelPool& pool;
  const GraphModels* graphs = nullptr;
  std::function<std::string()> metrics_text;  ///< of all models
  int64_t started = std::chrono::duration_cast<std::chrono::seconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  const std::atomic<bool>& draining;
};

/// One request that is being answered. Cheap to copy but for the request, which is moved out.
struct Context {
  http::Reply reply;
  std::string id;                   ///< names the request in logs and to the client
  int key = 0;                      ///< the number of the API key, from 1; 0: none was needed
  std::vector<http::Field> fields;  ///< of every response to it
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
  /// When the answer must be whole at the latest, with all that it waits for.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  ModelPool::Lease model = {};              ///< that answers: stays until the request is over
  int adapter = -1;                         ///< of that model
  std::shared_ptr<openai::Json> json = {};  ///< where it was read already to find the model
  FailureLog* failures = nullptr;           ///< outlives all requests; null: none is kept

  /// The body of the request, once.
  openai::Json TakeBody(const http::Request& request, const openai::Limits& limits) const;
  /// The whole response.
  void Send(int status, std::string body, std::string type = "application/json") const;
  void SendError(const openai::ApiError& error, std::string body) const;
  void SendError(const openai::ApiError& error) const;
  /// What the asker is told of a failure; the server's own ones are logged.
  openai::ApiError ErrorOf(const std::exception_ptr& failure) const;
};

/// An error, with the header fields that go with its status besides `fields`; `body` is it in the
/// API's form.
http::Response ErrorResponse(const openai::ApiError& error, std::string body,
                             std::vector<http::Field> fields);

/// The error for a request that finds no room.
openai::ApiError QueueFull(const std::string& message);
openai::ApiError ShuttingDown();

}  // namespace oort::serve
