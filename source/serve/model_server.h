// SPDX-License-Identifier: MIT
// Language models behind the APIs that programs know: OpenAI's first of all.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oort/engine_loop.h"
#include "openai/generate_call.h"
#include "serve/access.h"
#include "serve/encoder_loop.h"
#include "serve/http/server.h"
#include "serve/language_models.h"

namespace oort::serve {

struct ServeOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;     ///< 0: one that is free
  AccessRules access;       ///< `loopback` is found out
  bool allow_open = false;  ///< serve other machines without keys
  bool page = true;         ///< a page to chat with, at /
  /// A model that is loaded and stays, and how it is run; may be missing where `models` has some.
  openai::ServedModel served;
  EngineLoopOptions loop;
  std::vector<LanguageSource> models;          ///< others, that are loaded when they are needed
  std::vector<GraphSource> graphs;             ///< likewise, that answer at /v2
  size_t graph_body_bytes = size_t{64} << 20;  ///< of a request to one of these
  size_t models_memory = 0;                    ///< of all loaded models together; 0: no limit
  std::chrono::milliseconds retry_time{5000};  ///< before a model that failed is loaded again
  std::shared_ptr<EncoderLoop> encoder;        ///< answers /v1/embeddings; may be shared or null
  std::shared_ptr<EncoderLoop> reranker;       ///< likewise /v1/rerank
  openai::Limits limits;
  http::Limits http;
  std::chrono::seconds most_time{600};           ///< for one request
  std::chrono::milliseconds quiet_time{15'000};  ///< a stream says something at least so often
  std::string version;
  std::shared_ptr<const http::TlsIdentity> tls;  ///< null: plain HTTP
  std::function<void(std::string_view)> log;     ///< one line for each request, without its content
  std::function<void(std::string_view)> access_log;  ///< the same as a line of JSON
  std::function<void(std::string_view)> warn;        ///< what went wrong that is no request's fault
  std::function<int64_t()> dropped_lines;            ///< that the log has lost; may be empty
};

/// Thread contract: one thread at a time.
class ModelServer {
 public:
  /// Serves when it returns. Throws kInvalidArgument for options that would let anybody in, and kIo
  /// where the address cannot be had.
  explicit ModelServer(ServeOptions options);
  ~ModelServer();
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  uint16_t port() const;
  EngineStats stats() const;  ///< of the first model
  ModelPool::Report Look(std::string_view model) const;
  int connections() const;
  /// Who may ask from now on. Without keys there stay none: nobody would be let in by chance.
  void SetKeys(const ApiKeys& keys);
  /// For connections from now on.
  void SetTls(std::shared_ptr<const http::TlsIdentity> tls);
  /// Takes no more requests, and waits for those that it has; after `most` they are cut. Returns
  /// whether all came to their own end.
  bool Drain(std::chrono::milliseconds most);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oort::serve
