// SPDX-License-Identifier: MIT
// /v1/embeddings: texts in, vectors out.
#include <array>

#include "openai/embeddings.h"
#include "serve/encoder_job.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

/// The tokens of an input. A vector of half a text would be another text's: what is too long is
/// refused.
std::vector<int32_t> TokensOf(const Embedder& embedder,
                              const std::variant<std::string, std::vector<int32_t>>& input,
                              const std::string& path) {
  bool truncated = false;
  std::vector<int32_t> ids;
  if (const auto* text = std::get_if<std::string>(&input)) {
    ids = embedder.Encode(*text, &truncated);
  } else {
    ids = std::get<std::vector<int32_t>>(input);
    truncated = static_cast<int64_t>(ids.size()) > embedder.max_tokens();
  }
  if (!truncated) return ids;
  throw openai::RequestError({.message = "the text has more than the " +
                                         std::to_string(embedder.max_tokens()) +
                                         " tokens that the model takes",
                              .param = path,
                              .code = "context_length_exceeded"});
}

void AnswerEmbeddings(Services& services, http::Request request, const Context& context) {
  if (services.encoder == nullptr) {
    throw openai::RequestError({404, "this server has no encoder: start it with --encoder",
                                "invalid_request_error", "model", "model_not_found"});
  }
  EncoderLoop& encoder = *services.encoder;
  const Embedder& embedder = encoder.embedder();
  const openai::Json body = openai::ParseBody(request.body, services.limits);
  openai::EmbeddingsLimits limits;
  limits.vocabulary = embedder.tokenizer().size();
  openai::EmbeddingsCall call =
      ParseEmbeddingsRequest(body, encoder.name(), encoder.aliases(), services.served.any_name,
                             embedder.dimensions(), limits);
  const auto job = std::make_shared<EncoderJob>();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::string path = call.inputs.size() == 1 ? "input" : openai::ItemPath("input", i);
    job->texts.push_back({TokensOf(embedder, call.inputs[i], path), {}});
  }
  job->deadline = DeadlineOf(call.timeout, services, context);
  job->body = [&encoder, call = std::move(call), own = job.get()](const auto& vectors) {
    return openai::EmbeddingsBody(call, encoder.name(), vectors, encoder.embedder().dimensions(),
                                  own->tokens);
  };
  Begin(encoder, context, job);
}

constexpr std::array kEmbeddingRoutes = {
    Route{"POST", "/v1/embeddings", AnswerEmbeddings, openai::ErrorBody, false},
};

}  // namespace

std::span<const Route> EmbeddingRoutes() { return kEmbeddingRoutes; }

}  // namespace oort::serve
