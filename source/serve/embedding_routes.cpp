// SPDX-License-Identifier: MIT
// /v1/embeddings: texts in, vectors out.
#include <array>
#include <atomic>

#include "openai/embeddings.h"
#include "serve/encoder_loop.h"
#include "serve/routes.h"

namespace oort::serve {
namespace {

/// The tokens of an input. A vector of half a text would be another text's: what is too long is
/// refused.
EncoderLoop::Tokens TokensOf(const Embedder& embedder,
                             const std::variant<std::string, std::vector<int32_t>>& input,
                             const std::string& path) {
  bool truncated = false;
  EncoderLoop::Tokens ids;
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

/// Of one request; its asker may leave.
struct EmbeddingJob {
  openai::EmbeddingsCall call;
  int64_t tokens = 0;
  std::atomic<bool> left = false;
};

void SendVectors(EncoderLoop& encoder, const Context& context, const EmbeddingJob& job,
                 const std::vector<float>& vectors, const std::exception_ptr& failure) {
  Metrics& metrics = encoder.metrics();
  if (job.left) {
    ++metrics.left;
    return;
  }
  if (failure) {
    ++metrics.failed;
    return context.SendError(context.ErrorOf(failure));
  }
  ++metrics.finished[static_cast<size_t>(FinishReason::kStop)];
  metrics.prompt_tokens.Observe(static_cast<double>(job.tokens));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - context.arrived;
  metrics.end_to_end.Observe(time.count());
  context.reply.Note("request=" + context.id + " key=" + std::to_string(context.key) +
                     " prompt_tokens=" + std::to_string(job.tokens));
  context.Send(200, openai::EmbeddingsBody(job.call, encoder.name(), vectors,
                                           encoder.embedder().dimensions(), job.tokens));
}

void AnswerEmbeddings(Services& services, http::Request request, const Context& context) {
  if (services.encoder == nullptr) {
    throw openai::RequestError({404, "this server has no encoder: start it with --encoder",
                                "invalid_request_error", "model", "model_not_found"});
  }
  EncoderLoop& encoder = *services.encoder;
  const Embedder& embedder = encoder.embedder();
  const openai::Json body = openai::ParseBody(request.body, services.limits);
  const auto job = std::make_shared<EmbeddingJob>();
  openai::EmbeddingsLimits limits;
  limits.vocabulary = embedder.tokenizer().size();
  job->call = ParseEmbeddingsRequest(body, encoder.name(), encoder.aliases(),
                                     services.served.any_name, embedder.dimensions(), limits);
  std::vector<EncoderLoop::Tokens> texts;
  for (size_t i = 0; i < job->call.inputs.size(); ++i) {
    const std::string path = job->call.inputs.size() == 1 ? "input" : openai::ItemPath("input", i);
    texts.push_back(TokensOf(embedder, job->call.inputs[i], path));
    job->tokens += static_cast<int64_t>(texts.back().size());
  }
  context.reply.OnGone([job] { job->left = true; });
  try {
    encoder.Submit(
        std::move(texts), [job] { return !job->left; },
        [&encoder, context, job](const std::vector<float>& vectors,
                                 const std::exception_ptr& failure) {
          SendVectors(encoder, context, *job, vectors, failure);
        });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kLimit) throw;
    ++encoder.metrics().rejected_full;
    context.SendError(QueueFull(error.what()));
  }
}

constexpr std::array kEmbeddingRoutes = {
    Route{"POST", "/v1/embeddings", AnswerEmbeddings, openai::ErrorBody, false},
};

}  // namespace

std::span<const Route> EmbeddingRoutes() { return kEmbeddingRoutes; }

}  // namespace oort::serve
