// SPDX-License-Identifier: MIT
#include "serve/model_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>

#include "core/problems.h"
#include "oort/error.h"
#include "serve/access_log.h"
#include "serve/routes.h"
#include "serve/wait_for_model.h"

namespace oort::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 2;
constexpr size_t kWaitingBytes = size_t{256} << 20;  // of bodies that no worker has taken yet
// One reads a picture, and the other those that are known already.
constexpr int kPictureWorkers = 2;
constexpr size_t kWaitingPictureBytes = size_t{128} << 20;

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

/// What the HTTP layer refuses.
openai::ApiError RefusalOf(int status, std::string_view message) {
  openai::ApiError error{status, std::string(message)};
  if (status == 503) {
    error.type = "server_error";
    error.code = "overloaded";
  } else if (status == 408) {
    error.type = "timeout_error";
    error.code = "request_timeout";
  } else if (status == 413) {
    error.code = "request_too_large";
  }
  return error;
}

/// Whether one of the APIs might find pictures there. In a text quotes have backslashes: it hardly
/// ever looks so, and takes no more than another turn if it does.
bool MayHavePictures(std::string_view body) {
  constexpr std::array<std::string_view, 4> kMarks = {"\"image_url\"", "\"input_image\"",
                                                      "\"image\"", "\"images\""};
  return std::ranges::any_of(
      kMarks, [&](std::string_view mark) { return body.find(mark) != std::string_view::npos; });
}

ServeOptions Checked(ServeOptions options) {
  options.access.loopback = IsLoopback(options.host);
  if (!options.access.loopback && options.access.keys.empty() && !options.allow_open) {
    throw Error(ErrorCode::kInvalidArgument,
                "at " + options.host +
                    " other machines could use this server without a key: give "
                    "--api-key-file, or --allow-open if they may");
  }
  std::vector<std::string> names;
  if (options.served.model) {
    // It is there already.
    LanguageSetup setup{options.served, options.loop};
    options.models.insert(options.models.begin(),
                          {options.served.name, options.served.aliases,
                           options.served.model->adapters(), [setup] { return setup; }});
  }
  for (const LanguageSource& model : options.models) {
    names.push_back(model.name);
    names.insert(names.end(), model.aliases.begin(), model.aliases.end());
    names.insert(names.end(), model.adapters.begin(), model.adapters.end());
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    throw Error(ErrorCode::kInvalidArgument, "two models have the name " + Quote(*twice));
  }
  for (const GraphSource& graph : options.graphs) names.push_back(graph.name);
  if (names.empty() && !options.encoder && !options.reranker)
    throw Error(ErrorCode::kInvalidArgument, "there is no model to serve");
  return options;
}

}  // namespace

struct ModelServer::Impl {
  ServeOptions options;
  std::atomic<bool> draining = false;
  FailureLog failures;
  const int64_t started = std::chrono::duration_cast<std::chrono::seconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count();
  // Threads end before what they use: those of the server, then the one that loads models, then the
  // workers, then the engines'.
  LanguageModels languages;
  GraphModels graphs;
  Workers workers{kWorkers, kWaitingBytes};
  /// For requests with pictures, which take seconds to read where others take milliseconds.
  Workers picture_workers{kPictureWorkers, kWaitingPictureBytes};
  ModelPool pool;
  std::unique_ptr<http::Server> server;
  /// The same for its own thread, which begins before `server` is set.
  std::atomic<const http::Server*> listening = nullptr;

  explicit Impl(ServeOptions given)
      : options(Checked(std::move(given))),
        failures(options.warn),
        languages(options.models, options.served.any_name,
                  [this](Metrics& metrics) { return ServicesFor(metrics); }),
        graphs(options.graphs, languages.size()),
        pool(Sources(), PoolOptions()) {
    http::ServerOptions http;
    http.host = options.host;
    http.port = options.port;
    http.limits = options.http;
    http.tls = options.tls;
    http.limits.body_bytes = options.limits.body_bytes;
    if (!options.graphs.empty()) {
      http.limits.body_bytes = std::max(http.limits.body_bytes, options.graph_body_bytes);
    }
    http.check = [this](const http::Request& request) { return Check(request); };
    http.handle = [this](http::Request request, const http::Reply& reply) {
      Handle(std::move(request), reply);
    };
    http.refuse = [this](const http::Request& request, int status, std::string_view message) {
      return Refuse(request, RefusalOf(status, message), FieldsOf(request, RequestId(request)));
    };
    if (options.log || options.access_log)
      http.log = [this](const http::Served& served) { Log(served); };
    server = std::make_unique<http::Server>(std::move(http));
    listening = server.get();
  }
  ~Impl() {
    listening = nullptr;
    server.reset();
    pool.Stop();
    picture_workers.Stop();
    workers.Stop();
    // What it still holds of the last requests are uses of the pool's models.
    for (EncoderLoop* loop : Encoders()) loop->Finish();
  }

  Services ServicesFor(Metrics& metrics) {
    return {.served = {},
            .metrics = metrics,
            .limits = options.limits,
            .workers = workers,
            .encoder = options.encoder.get(),
            .reranker = options.reranker.get(),
            .most_time = options.most_time,
            .quiet_time = options.quiet_time,
            .version = options.version,
            .page = options.page,
            .connections = [this] { return Connections(); },
            .models = [this] { return languages.List(pool); },
            .pool = pool,
            .graphs = &graphs,
            .metrics_text = [this] { return MetricsOfAll(); },
            .started = started,
            .draining = draining};
  }
  /// The encoder and the reranker, as far as they are there.
  std::vector<EncoderLoop*> Encoders() const {
    std::vector<EncoderLoop*> loops = {options.encoder.get(), options.reranker.get()};
    std::erase(loops, nullptr);
    return loops;
  }
  int Connections() const {
    const http::Server* const open = listening;
    return open != nullptr ? open->connections() : 0;
  }
  std::string MetricsOfAll() {
    std::vector<MeasuredModel> models = languages.Measured(pool);
    for (EncoderLoop* loop : Encoders()) {
      models.push_back({loop->name(), &loop->metrics(), loop->stats()});
    }
    const int64_t dropped = options.dropped_lines ? options.dropped_lines() : 0;
    return MetricsText(models, {.connections = Connections(), .dropped_lines = dropped});
  }
  std::vector<ModelSource> Sources() {
    std::vector<ModelSource> sources = languages.Sources(options.served.model != nullptr);
    for (ModelSource& graph : graphs.Sources()) sources.push_back(std::move(graph));
    return sources;
  }
  ModelPoolOptions PoolOptions() const {
    ModelPoolOptions given;
    given.memory = options.models_memory;
    given.retry_time = options.retry_time;
    given.on_failure = [this](std::string_view model, const Error& error) {
      if (options.warn) {
        options.warn("model " + Quote(model) + " could not be loaded: " + error.what());
      }
    };
    return given;
  }

  /// The header fields of every response to a request.
  std::vector<http::Field> FieldsOf(const http::Request& request, const std::string& id) const;
  /// An error in the form of the API whose address was asked.
  static http::Response Refuse(const http::Request& request, const openai::ApiError& error,
                               std::vector<http::Field> fields);
  /// Before the body is read.
  std::optional<http::Response> Check(const http::Request& request) const;
  void Handle(http::Request request, const http::Reply& reply);
  /// Answers with the services of the first model, or of none.
  void AnswerWithoutModel(const Route& route, http::Request request, Context context);
  /// On a worker: finds the model that is meant, and answers as soon as it is there.
  void Dispatch(const Route& route, http::Request request, Context context);
  void Answer(const Route& route, http::Request request, const Context& context);
  void AnswerHere(const Route& route, http::Request request, const Context& context);
  void AnswerWithPictures(const Route& route, http::Request request, Context context);
  void Log(const http::Served& served) const;
};

std::vector<http::Field> ModelServer::Impl::FieldsOf(const http::Request& request,
                                                     const std::string& id) const {
  std::vector<http::Field> fields = CorsFields(request, options.access);
  fields.push_back({"X-Request-Id", id});
  fields.push_back({"X-Content-Type-Options", "nosniff"});
  return fields;
}

http::Response ModelServer::Impl::Refuse(const http::Request& request,
                                         const openai::ApiError& error,
                                         std::vector<http::Field> fields) {
  return ErrorResponse(error, ErrorFormOf(request.path)(error), std::move(fields));
}

std::optional<http::Response> ModelServer::Impl::Check(const http::Request& request) const {
  std::vector<http::Field> fields = FieldsOf(request, RequestId(request));
  if (const auto error = CheckAccess(request, options.access)) {
    return Refuse(request, *error, std::move(fields));
  }
  if (request.method == "OPTIONS") return Preflight(request, options.access);
  std::string allowed;
  const Route* route = FindRoute(request.method, request.path, allowed);
  if (route != nullptr) {
    // Before it is read: only tensors are larger.
    const bool large = request.length.value_or(0) > options.limits.body_bytes;
    if (!large || !route->for_language_model) return {};
    const std::string most = std::to_string(options.limits.body_bytes);
    return Refuse(request, RefusalOf(413, "the request has more than " + most + " bytes"),
                  std::move(fields));
  }
  if (allowed.empty()) {
    return Refuse(
        request,
        {404, "there is nothing at this address", "invalid_request_error", "", "unknown_url"},
        std::move(fields));
  }
  fields.push_back({"Allow", allowed});
  return Refuse(
      request,
      {405, "this address takes " + allowed, "invalid_request_error", "", "method_not_allowed"},
      std::move(fields));
}

void ModelServer::Impl::Handle(http::Request request, const http::Reply& reply) {
  Context context{reply, RequestId(request), KeyOf(request, options.access), {}};
  context.failures = &failures;
  context.fields = FieldsOf(request, context.id);
  reply.Note("request=" + context.id + " key=" + std::to_string(context.key));
  std::string allowed;
  const Route* route = FindRoute(request.method, request.path, allowed);
  if (route == nullptr) return;  // Check has refused it
  if (route->method != "POST") {
    return AnswerWithoutModel(*route, std::move(request), std::move(context));
  }
  if (draining) return context.SendError(ShuttingDown(), route->error_body(ShuttingDown()));
  const size_t bytes = request.body.size();
  const auto shared = std::make_shared<http::Request>(std::move(request));
  const bool taken = workers.Push(
      [this, route, shared, context] { Dispatch(*route, std::move(*shared), context); }, bytes);
  if (taken) return;
  ++languages.Blank().metrics.rejected_full;
  const openai::ApiError error = QueueFull("too many requests wait to be read: try again later");
  context.SendError(error, route->error_body(error));
}

void ModelServer::Impl::AnswerWithoutModel(const Route& route, http::Request request,
                                           Context context) {
  try {
    if (languages.size() > 0) context.model = pool.Peek(0);
    if (context.model) return Answer(route, std::move(request), context);
    Services services = languages.Blank();
    route.answer(services, std::move(request), context);
  } catch (...) {
    const openai::ApiError error = context.ErrorOf(std::current_exception());
    context.SendError(error, route.error_body(error));
  }
}

void ModelServer::Impl::Answer(const Route& route, http::Request request, const Context& context) {
  auto& model = static_cast<LanguageResident&>(*context.model);
  if (model.services().served.read_picture && MayHavePictures(request.body)) {
    return AnswerWithPictures(route, std::move(request), context);
  }
  AnswerHere(route, std::move(request), context);
}

/// On a thread of its own kind: who asks for text does not wait for pictures of others.
void ModelServer::Impl::AnswerWithPictures(const Route& route, http::Request request,
                                           Context context) {
  const size_t bytes = request.body.size();
  // What waits is counted by its bytes, and what they become is many times as large.
  context.json = nullptr;
  const auto shared = std::make_shared<http::Request>(std::move(request));
  const bool taken = picture_workers.Push(
      [this, &route, shared, context] { AnswerHere(route, std::move(*shared), context); }, bytes);
  if (taken) return;
  auto& model = static_cast<LanguageResident&>(*context.model);
  ++model.services(context.adapter).metrics.rejected_full;
  const openai::ApiError error = QueueFull("too many pictures wait to be read: try again later");
  context.SendError(error, route.error_body(error));
}

void ModelServer::Impl::AnswerHere(const Route& route, http::Request request,
                                   const Context& context) {
  Services& services = static_cast<LanguageResident&>(*context.model).services(context.adapter);
  try {
    route.answer(services, std::move(request), context);
  } catch (...) {
    const openai::ApiError error = context.ErrorOf(std::current_exception());
    services.metrics.AddRefused(error.status);
    context.SendError(error, route.error_body(error));
  }
}

void ModelServer::Impl::Dispatch(const Route& route, http::Request request, Context context) {
  if (!route.for_language_model) {
    return AnswerWithoutModel(route, std::move(request), std::move(context));
  }
  std::chrono::duration<double> most = options.most_time;
  size_t model = 0;
  try {
    if (languages.size() == 0) {
      throw openai::RequestError({404, "this server has no language model", "invalid_request_error",
                                  "model", "model_not_found"});
    }
    context.model = languages.IsOne() ? pool.Peek(0) : nullptr;
    if (!context.model) {
      context.json =
          std::make_shared<openai::Json>(openai::ParseBody(request.body, options.limits));
      const openai::Json& body = *context.json;
      const LanguageModels::Named named = languages.Find(body);
      model = named.model;
      context.adapter = named.adapter;
      if (const auto time = body.find("timeout"); time != body.end() && time->is_number()) {
        most = std::min(most, std::chrono::duration<double>(time->get<double>()));
      }
    }
    context.deadline = context.arrived + std::chrono::duration_cast<Clock::duration>(
                                             std::max(most, std::chrono::duration<double>(0)));
    if (!context.model) context.model = pool.Peek(model);
  } catch (...) {
    const openai::ApiError error = context.ErrorOf(std::current_exception());
    ++languages.Blank().metrics.rejected_invalid;
    return context.SendError(error, route.error_body(error));
  }
  if (context.model) return Answer(route, std::move(request), context);
  // What waits is counted by its bytes, and what they become is many times as large.
  context.json = nullptr;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(context.deadline - Clock::now());
  WaitForModel(pool, workers, model, options.models[model].name, left,
               {std::move(request), std::move(context), route.error_body,
                [this, &route](http::Request asked, const Context& ready) {
                  Answer(route, std::move(asked), ready);
                }});
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

EngineStats ModelServer::stats() const {
  const ModelPool::Lease lease = impl_->pool.Peek(0);
  return lease ? static_cast<const LanguageResident&>(*lease).stats() : EngineStats();
}

ModelPool::Report ModelServer::Look(std::string_view model) const {
  for (size_t i = 0; i < impl_->options.models.size(); ++i) {
    if (impl_->options.models[i].name == model) return impl_->pool.Look(i);
  }
  throw Error(ErrorCode::kNotFound, "there is no model " + Quote(model));
}

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
  impl_->draining = true;
  return impl_->server->Drain(most);
}

}  // namespace oort::serve
