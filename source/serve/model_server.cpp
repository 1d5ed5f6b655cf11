// SPDX-License-Identifier: MIT
#include "serve/model_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>

#include "oort/error.h"
#include "serve/access_log.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

constexpr int kWorkers = 2;
constexpr size_t kWaitingBytes = size_t{256} << 20;  // of bodies that no worker has taken yet

/// The request's own name for itself, where it is one that a log can hold; else a new one.
std::string RequestId(const http::Request& request) {
  const std::string_view given = request.Get("x-request-id");
  const bool plain = std::ranges::all_of(given, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
  if (plain && !given.empty() && given.size() <= 64) return std::string(given);
  static constexpr std::string_view kDigits = "0123456789abcdef";
  thread_local std::mt19937_64 random{std::random_device()()};
  std::string id = "req-";
  for (int i = 0; i < 16; ++i) id += kDigits[random() % 16];
  return id;
}

http::Response ErrorResponse(const openai::ApiError& error, std::vector<http::Field> fields) {
  if (error.status == 401) fields.push_back({"WWW-Authenticate", "Bearer"});
  return {.status = error.status, .body = openai::ErrorBody(error), .fields = std::move(fields)};
}

/// The same for servers whose answers can be compared.
std::string Fingerprint(const LanguageModel& model, const EngineOptions& engine) {
  const LanguageModelInfo& info = model.info();
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const char c : info.family) add(static_cast<unsigned char>(c));
  for (const int64_t value :
       {info.layers, info.hidden, info.heads, info.kv_heads, info.vocabulary}) {
    add(static_cast<uint64_t>(value));
  }
  add(info.weight_bytes);
  add(info.file_bytes);
  add(static_cast<uint64_t>(engine.kv.value_or(model.default_kv())));
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "fp_";
  for (int shift = 44; shift >= 0; shift -= 4) text += kDigits[(hash >> shift) & 15];
  return text;
}

ServeOptions Checked(ServeOptions options) {
  options.access.loopback = IsLoopback(options.host);
  if (!options.access.loopback && options.access.keys.empty() && !options.allow_open) {
    throw Error(ErrorCode::kInvalidArgument,
                "at " + options.host +
                    " other machines could use this server without a key: give "
                    "--api-key-file, or --allow-open if they may");
  }
  if (!options.served.model) throw Error(ErrorCode::kInvalidArgument, "there is no model to serve");
  const int64_t context = options.served.model->info().context;
  if (options.served.context == 0) options.served.context = context;
  if (options.served.fingerprint.empty()) {
    options.served.fingerprint = Fingerprint(*options.served.model, options.loop.engine);
  }
  return options;
}

}  // namespace

struct ModelServer::Impl {
  ServeOptions options;
  // Threads end before what they use: those of the server, then the workers, then the engine's.
  Metrics metrics;
  Services services;
  EngineLoop loop;
  Workers workers{kWorkers, kWaitingBytes};
  std::unique_ptr<http::Server> server;

  explicit Impl(ServeOptions given)
      : options(Checked(std::move(given))),
        metrics(options.served.context),
        services{.served = options.served,
                 .limits = options.limits,
                 .loop = loop,
                 .metrics = metrics,
                 .workers = workers,
                 .most_time = options.most_time,
                 .quiet_time = options.quiet_time,
                 .version = options.version,
                 .page = options.page,
                 .connections = [this] { return server ? server->connections() : 0; }},
        loop(options.served.model, options.loop) {
    // No sequence is longer than the cache.
    const int64_t room = loop.stats().blocks * KvCache::kBlockTokens;
    services.served.context = std::min(services.served.context, room);
    http::ServerOptions http;
    http.host = options.host;
    http.port = options.port;
    http.limits = options.http;
    http.tls = options.tls;
    http.limits.body_bytes = options.limits.body_bytes;
    http.check = [this](const http::Request& request) { return Check(request); };
    http.handle = [this](http::Request request, const http::Reply& reply) {
      Handle(std::move(request), reply);
    };
    http.refuse = [](int status, std::string_view message) {
      return ErrorResponse({status, std::string(message)}, {});
    };
    if (options.log || options.access_log)
      http.log = [this](const http::Served& served) { Log(served); };
    server = std::make_unique<http::Server>(std::move(http));
  }

  /// Before the body is read.
  std::optional<http::Response> Check(const http::Request& request) const;
  void Handle(http::Request request, const http::Reply& reply);
  void Log(const http::Served& served) const;
};

std::optional<http::Response> ModelServer::Impl::Check(const http::Request& request) const {
  std::vector<http::Field> fields = CorsFields(request, options.access);
  fields.push_back({"X-Request-Id", RequestId(request)});
  if (const auto error = CheckAccess(request, options.access)) {
    return ErrorResponse(*error, std::move(fields));
  }
  if (request.method == "OPTIONS") return Preflight(request, options.access);
  std::string allowed;
  const Route* route = FindRoute(request.method, request.path, allowed);
  if (route != nullptr) return {};
  if (allowed.empty()) {
    return ErrorResponse(
        {404, "there is nothing at this address", "invalid_request_error", "", "unknown_url"},
        std::move(fields));
  }
  fields.push_back({"Allow", allowed});
  return ErrorResponse(
      {405, "this address takes " + allowed, "invalid_request_error", "", "method_not_allowed"},
      std::move(fields));
}

void ModelServer::Impl::Handle(http::Request request, const http::Reply& reply) {
  Context context{reply, RequestId(request), KeyOf(request, options.access),
                  CorsFields(request, options.access)};
  context.fields.push_back({"X-Request-Id", context.id});
  context.fields.push_back({"X-Content-Type-Options", "nosniff"});
  reply.Note("request=" + context.id + " key=" + std::to_string(context.key));
  std::string allowed;
  const Route* route = FindRoute(request.method, request.path, allowed);
  if (route == nullptr) return;  // Check has refused it
  if (route->method != "POST") {
    try {
      route->answer(services, std::move(request), context);
    } catch (...) {
      context.SendError(openai::ApiErrorOf(std::current_exception()));
    }
    return;
  }
  if (services.draining) return context.SendError(ShuttingDown());
  const size_t bytes = request.body.size();
  const auto shared = std::make_shared<http::Request>(std::move(request));
  const bool taken = workers.Push(
      [this, route, shared, context] {
        try {
          route->answer(services, std::move(*shared), context);
        } catch (...) {
          const openai::ApiError error = openai::ApiErrorOf(std::current_exception());
          ++(error.status < 500 ? metrics.rejected_invalid : metrics.failed);
          context.SendError(error);
        }
      },
      bytes);
  if (taken) return;
  ++metrics.rejected_full;
  context.SendError(QueueFull("too many requests wait to be read: try again later"));
}

void ModelServer::Impl::Log(const http::Served& served) const {
  if (options.access_log) options.access_log(AccessLine(served, std::chrono::system_clock::now()));
  if (!options.log) return;
  std::string line(served.peer);
  line.append(" ").append(served.method).append(" ").append(served.path);
  line.append(" ").append(std::to_string(served.status));
  line.append(" ").append(std::to_string(served.bytes)).append("B ");
  line.append(std::to_string(static_cast<int64_t>(1e3 * served.seconds))).append("ms");
  if (served.cut) line.append(" cut");
  if (!served.note.empty()) line.append(" ").append(served.note);
  options.log(line);
}

ModelServer::ModelServer(ServeOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

ModelServer::~ModelServer() = default;

uint16_t ModelServer::port() const { return impl_->server->port(); }

EngineStats ModelServer::stats() const { return impl_->loop.stats(); }

int ModelServer::connections() const { return impl_->server->connections(); }

void ModelServer::SetKeys(const ApiKeys& keys) {
  impl_->server->Post([impl = impl_.get(), keys] {
    if (!impl->options.access.keys.empty() && !keys.empty()) {
      impl->options.access.keys.Replace(keys);
    }
  });
}

void ModelServer::SetTls(std::shared_ptr<const http::TlsIdentity> tls) {
  impl_->server->SetTls(std::move(tls));
}

bool ModelServer::Drain(std::chrono::milliseconds most) {
  impl_->services.draining = true;
  return impl_->server->Drain(most);
}

}  // namespace oort::serve
