// SPDX-License-Identifier: MIT
// /v2: graphs by KServe's inference protocol.
#include <algorithm>
#include <array>
#include <charconv>

#include "openai/json_writer.h"
#include "serve/routes.h"
#include "serve/v2_tensors.h"
#include "serve/wait_for_model.h"

namespace oort::serve {
namespace {

using openai::JsonWriter;
using openai::RequestError;

std::string V2Error(const openai::ApiError& error) {
  JsonWriter out;
  out.Open('{').Key("error").String(error.message).Close('}');
  return out.Take();
}

/// "/v2/models/NAME/versions/1/infer"
struct V2Address {
  std::string model;
  std::string_view action;  ///< "infer", "ready", or nothing
};

V2Address ParseAddress(std::string_view path) {
  path.remove_prefix(std::string_view("/v2/models/").size());
  if (path.ends_with('/')) path.remove_suffix(1);
  const size_t end = std::min(path.find('/'), path.size());
  V2Address address{Unescaped(path.substr(0, end)), path.substr(std::min(end + 1, path.size()))};
  constexpr std::string_view kVersions = "versions/";
  if (address.action.starts_with(kVersions)) {
    std::string_view& rest = address.action;
    rest.remove_prefix(kVersions.size());
    const size_t next = std::min(rest.find('/'), rest.size());
    if (rest.substr(0, next) != "1") throw RequestError({404, "models have the version 1 alone"});
    rest.remove_prefix(std::min(next + 1, rest.size()));
  }
  return address;
}

/// Answers as soon as the graph is there, on a worker.
void WithGraph(Services& services, const std::string& name, http::Request request,
               const Context& context,
               const std::function<void(GraphRunner&, http::Request, const Context&)>& answer) {
  const size_t model = services.graphs->Find(name);
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(
      context.arrived + services.most_time - std::chrono::steady_clock::now());
  WaitForModel(
      services.pool, services.workers, model, name, most,
      {std::move(request), context, V2Error, [answer](http::Request asked, const Context& ready) {
         try {
           answer(static_cast<GraphRunner&>(*ready.model), std::move(asked), ready);
         } catch (...) {
           const auto error = ready.ErrorOf(std::current_exception());
           ready.SendError(error, V2Error(error));
         }
       }});
}

void WritePorts(JsonWriter& out, const std::vector<Port>& ports, bool batches) {
  out.Open('[');
  for (const Port& port : ports) {
    out.Open('{').Key("name").String(port.name);
    out.Key("datatype").String(V2Name(port.dtype)).Key("shape").Open('[');
    for (int axis = 0; port.has_shape && axis < port.shape.rank(); ++axis) {
      out.Integer(axis == 0 && batches ? -1 : port.shape[axis]);
    }
    out.Close(']').Close('}');
  }
  out.Close(']');
}

void ShowServer(Services& services, http::Request, const Context& context) {
  JsonWriter out;
  out.Open('{').Key("name").String("oort").Key("version").String(services.version);
  out.Key("extensions").Open('[').String("binary_tensor_data").Close(']').Close('}');
  context.Send(200, out.Take());
}

void ShowLive(Services&, http::Request, const Context& context) {
  context.Send(200, R"({"live":true})");
}

void ShowServerReady(Services& services, http::Request, const Context& context) {
  context.Send(services.draining ? 503 : 200,
               services.draining ? R"({"ready":false})" : R"({"ready":true})");
}

/// The networks that there are: Triton's extension for model repositories.
void ListGraphs(Services& services, http::Request request, const Context& context) {
  bool loaded_alone = false;
  if (!request.body.empty()) {
    const openai::Json body = openai::ParseBody(request.body, services.limits);
    openai::Fields fields(body);
    loaded_alone = fields.Bool("ready").value_or(false);
    fields.CheckAllKnown();
  }
  JsonWriter out;
  out.Open('[');
  for (const GraphSource& graph : services.graphs->list()) {
    const ModelState state = services.pool.Look(services.graphs->Find(graph.name)).state;
    if (loaded_alone && state != ModelState::kLoaded) continue;
    out.Open('{').Key("name").String(graph.name).Key("version").String("1");
    out.Key("state").String(state == ModelState::kLoaded ? "READY" : "UNAVAILABLE");
    out.Key("reason").String(state == ModelState::kLoaded ? "" : Name(state)).Close('}');
  }
  out.Close(']');
  context.Send(200, out.Take());
}

/// One that is not loaded is ready, too: a request loads it.
void ShowModelReady(Services& services, const std::string& name, const Context& context) {
  const ModelState state = services.pool.Look(services.graphs->Find(name)).state;
  const bool ready = state != ModelState::kFailed && !services.draining;
  JsonWriter out;
  out.Open('{').Key("name").String(name).Key("ready").Bool(ready);
  out.Key("state").String(Name(state)).Close('}');
  context.Send(ready ? 200 : 503, out.Take());
}

void ShowGraph(Services& services, http::Request request, const Context& context) {
  const V2Address address = ParseAddress(request.path);
  if (address.action == "ready") return ShowModelReady(services, address.model, context);
  if (!address.action.empty()) throw RequestError({404, "there is nothing at this address"});
  const std::string name = address.model;
  WithGraph(services, name, std::move(request), context,
            [name](GraphRunner& runner, const http::Request&, const Context& ready) {
              JsonWriter out;
              out.Open('{').Key("name").String(name);
              out.Key("versions").Open('[').String("1").Close(']');
              out.Key("platform").String("oort_pnnx").Key("inputs");
              WritePorts(out, runner.graph().inputs(), runner.batches());
              out.Key("outputs");
              WritePorts(out, runner.graph().outputs(), runner.batches());
              out.Close('}');
              ready.Send(200, out.Take());
            });
}

std::optional<size_t> JsonBytes(const http::Request& request) {
  const std::string_view text = request.Get("inference-header-content-length");
  if (text.empty()) return {};
  size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw RequestError("", "Inference-Header-Content-Length must be a number");
  }
  return bytes;
}

void SendResults(const InferCall& call, const std::vector<Tensor>& outputs,
                 const GraphRunner& runner, const std::string& name, const Context& context) {
  InferAnswer answer = WriteInferAnswer(call, outputs, runner.graph(), name);
  if (!answer.json_bytes) return context.Send(200, std::move(answer.body));
  http::Response response{
      .type = "application/octet-stream", .body = std::move(answer.body), .fields = context.fields};
  response.fields.push_back(
      {"Inference-Header-Content-Length", std::to_string(*answer.json_bytes)});
  context.reply.Send(std::move(response));
}

void Infer(GraphRunner& runner, const std::string& name, const http::Request& request,
           const Context& context, const openai::Limits& limits, Workers& workers,
           std::chrono::seconds most) {
  const auto call = std::make_shared<InferCall>(
      ParseInferRequest(request.body, JsonBytes(request), runner.graph(), limits));
  GraphRunner::Job job;
  job.inputs = std::move(call->inputs);
  job.deadline = context.arrived + most;
  job.wanted = [context] { return !context.reply.gone(); };
  job.done = [call, context, name, &runner, &workers](std::vector<Tensor> outputs,
                                                      std::exception_ptr failure) {
    // Numbers become text: not while others wait for the graph.
    const auto send = [call, context, name, &runner, failure, outputs = std::move(outputs)] {
      try {
        if (failure) std::rethrow_exception(failure);
        SendResults(*call, outputs, runner, name, context);
      } catch (...) {
        const openai::ApiError error = context.ErrorOf(std::current_exception());
        context.SendError(error, V2Error(error));
      }
    };
    if (!workers.Push(send)) send();
  };
  try {
    runner.Submit(std::move(job));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kLimit) throw;
    throw RequestError(QueueFull(error.what()));
  }
}

void AnswerInfer(Services& services, http::Request request, const Context& context) {
  const V2Address address = ParseAddress(request.path);
  if (address.action != "infer") {
    throw RequestError({404, "POST goes to /v2/models/NAME/infer"});
  }
  const std::string name = address.model;
  const openai::Limits limits = services.limits;
  Workers& workers = services.workers;
  const auto most = services.most_time;
  WithGraph(services, name, std::move(request), context,
            [name, limits, most, &workers](GraphRunner& runner, const http::Request& asked,
                                           const Context& ready) {
              Infer(runner, name, asked, ready, limits, workers, most);
            });
}

constexpr std::array kV2Routes = {
    Route{"GET", "/v2", ShowServer, V2Error},
    Route{"GET", "/v2/health/live", ShowLive, V2Error},
    Route{"GET", "/v2/health/ready", ShowServerReady, V2Error},
    Route{"POST", "/v2/repository/index", ListGraphs, V2Error, false},
    Route{"GET", "/v2/models/", ShowGraph, V2Error},
    Route{"POST", "/v2/models/", AnswerInfer, V2Error, false},
};

}  // namespace

std::span<const Route> V2Routes() { return kV2Routes; }

}  // namespace oort::serve
