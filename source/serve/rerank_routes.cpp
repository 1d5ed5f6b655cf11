// SPDX-License-Identifier: MIT
// /v1/rerank, under the names that programs know: a query and texts in, the texts by how well they
// answer it out.
#include <array>

#include "openai/rerank.h"
#include "serve/encoder_job.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

void AnswerRerank(Services& services, http::Request request, const Context& context) {
  if (services.reranker == nullptr) {
    throw openai::RequestError({404, "this server has no reranker: start it with --reranker",
                                "invalid_request_error", "model", "model_not_found"});
  }
  EncoderLoop& loop = *services.reranker;
  const openai::Json body = openai::ParseBody(request.body, services.limits);
  openai::RerankCall call =
      openai::ParseRerankRequest(body, loop.name(), loop.aliases(), services.served.any_name);
  const auto job = std::make_shared<EncoderJob>();
  int64_t cut = 0;
  for (const std::string& document : call.documents) {
    bool truncated = false;
    job->texts.push_back(loop.reranker().Encode(call.query, document, &truncated));
    cut += truncated;
  }
  job->deadline = DeadlineOf(call.timeout, services, context);
  job->body = [&loop, call = std::move(call), id = "rerank-" + context.id, cut,
               own = job.get()](const auto& scores) {
    return openai::RerankBody(call, id, loop.name(), scores, {own->tokens, cut});
  };
  Begin(loop, context, job);
}

constexpr std::array kRerankRoutes = {
    Route{"POST", "/v1/rerank", AnswerRerank, openai::ErrorBody, false},
    Route{"POST", "/v2/rerank", AnswerRerank, openai::ErrorBody, false},
};

}  // namespace

std::span<const Route> RerankRoutes() { return kRerankRoutes; }

}  // namespace oort::serve
