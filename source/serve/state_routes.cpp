// SPDX-License-Identifier: MIT
// How the server is.
#include <array>

#include "openai/json_writer.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

void ShowHealth(Services&, http::Request, const Context& context) {
  context.Send(200, R"({"status":"ok"})");
}

void ShowReady(Services& services, http::Request, const Context& context) {
  if (services.draining) return context.SendError(ShuttingDown());
  context.Send(200, R"({"status":"ready"})");
}

void ShowVersion(Services& services, http::Request, const Context& context) {
  openai::JsonWriter out;
  out.Open('{').Key("version").String(services.version).Close('}');
  context.Send(200, out.Take());
}

void ShowMetrics(Services& services, http::Request, const Context& context) {
  context.Send(200, services.metrics_text(), "text/plain; version=0.0.4; charset=utf-8");
}

constexpr std::array kStateRoutes = {
    Route{"GET", "/health", ShowHealth},
    Route{"GET", "/ready", ShowReady},
    Route{"GET", "/version", ShowVersion},
    Route{"GET", "/metrics", ShowMetrics},
};

}  // namespace

std::span<const Route> StateRoutes() { return kStateRoutes; }

}  // namespace oort::serve
