// SPDX-License-Identifier: MIT
#include <array>

#include "serve/page/page.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

void SendPage(const Services& services, const http::Request& request, const Context& context,
              const Page& page) {
  if (!services.page) {
    return context.SendError({404, "this server has no page: ask /v1/chat/completions"});
  }
  http::Response response{.type = "text/html; charset=utf-8", .fields = context.fields};
  const auto field = [&](std::string name, std::string_view value) {
    response.fields.push_back({std::move(name), std::string(value)});
  };
  field("Content-Security-Policy", page.policy);
  field("Referrer-Policy", "no-referrer");
  field("Cache-Control", "no-cache");
  field("ETag", page.tag);
  if (request.Get("if-none-match") == page.tag) {
    response.status = 304;
  } else {
    response.body = page.text;
  }
  context.reply.Send(std::move(response));
}

/// Who serves networks alone has nobody to chat with.
void ShowFirst(Services& services, http::Request request, const Context& context) {
  const bool pictures = services.models().empty() && !services.graphs->list().empty();
  SendPage(services, request, context, pictures ? ImagesPage() : ChatPage());
}

void ShowImages(Services& services, http::Request request, const Context& context) {
  SendPage(services, request, context, ImagesPage());
}

void ShowDashboard(Services& services, http::Request request, const Context& context) {
  SendPage(services, request, context, DashboardPage());
}

void ShowOpenApi(Services&, http::Request request, const Context& context) {
  const Page page = OpenapiPage();
  http::Response response{.body = std::string(page.text), .fields = context.fields};
  response.fields.push_back({"ETag", std::string(page.tag)});
  if (request.Get("if-none-match") == page.tag)
    response = {.status = 304, .fields = context.fields};
  context.reply.Send(std::move(response));
}

constexpr std::array kPageRoutes = {
    Route{"GET", "/openapi.json", ShowOpenApi},
    Route{"GET", "/", ShowFirst},
    Route{"GET", "/images", ShowImages},
    Route{"GET", "/dashboard", ShowDashboard},
};

}  // namespace

std::span<const Route> PageRoutes() { return kPageRoutes; }

}  // namespace oort::serve
