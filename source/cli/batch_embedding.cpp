// SPDX-License-Identifier: MIT
#include "cli/batch_worker.h"
#include "openai/embeddings.h"

namespace oort::cli {

using openai::ApiErrorOf;
using openai::RequestError;

namespace {

/// So many texts run together: enough to fill batches of each length.
constexpr size_t kMostTexts = 1024;

}  // namespace

EmbeddingWorker::EmbeddingWorker(Embedder embedder, std::string name)
    : embedder_(std::move(embedder)), name_(std::move(name)) {}

bool EmbeddingWorker::HasRoom() const { return texts_.size() < kMostTexts; }

void EmbeddingWorker::Add(BatchLine line, const AnswerSink& sink) {
  Job job{std::move(line), {}, texts_.size(), 0};
  try {
    if (job.line.kind == BatchLine::kPlain) {
      if (job.line.prompt.empty()) throw RequestError("prompt", "the text is empty");
      job.call.inputs.emplace_back(job.line.prompt);
    } else if (job.line.kind == BatchLine::kEmbeddings) {
      openai::EmbeddingsLimits limits;
      limits.vocabulary = embedder_.tokenizer().size();
      job.call =
          ParseEmbeddingsRequest(job.line.body, name_, {}, true, embedder_.dimensions(), limits);
    } else {
      throw RequestError("url", "this model is an encoder: it answers /v1/embeddings alone");
    }
    std::vector<std::vector<int32_t>> ids;
    for (const auto& input : job.call.inputs) ids.push_back(Encode(input));
    for (auto& text : ids) {
      job.tokens += static_cast<int64_t>(text.size());
      texts_.push_back(std::move(text));
    }
  } catch (...) {
    sink({ErrorLine(job.line, ApiErrorOf(std::current_exception())), false, 0, 0});
    return;
  }
  job.line.body = {};
  jobs_.push_back(std::move(job));
}

/// Throws where a text has more tokens than the model takes: a vector of half of it would be
/// another text's.
std::vector<int32_t> EmbeddingWorker::Encode(
    const std::variant<std::string, std::vector<int32_t>>& input) const {
  bool truncated = false;
  std::vector<int32_t> ids;
  if (const auto* text = std::get_if<std::string>(&input)) {
    ids = embedder_.Encode(*text, &truncated);
  } else {
    ids = std::get<std::vector<int32_t>>(input);
    truncated = static_cast<int64_t>(ids.size()) > embedder_.max_tokens();
  }
  if (!truncated) return ids;
  throw RequestError({.message = "a text has more than the " +
                                 std::to_string(embedder_.max_tokens()) +
                                 " tokens that the model takes",
                      .param = "input",
                      .code = "context_length_exceeded"});
}

bool EmbeddingWorker::Step(const AnswerSink& sink) {
  if (jobs_.empty()) return false;
  const Embeddings embeddings = embedder_.EmbedTokens(texts_);
  const auto width = static_cast<size_t>(embeddings.dimensions);
  for (const Job& job : jobs_) {
    const std::span<const float> vectors =
        std::span(embeddings.values).subspan(job.first * width, job.call.inputs.size() * width);
    BatchAnswer answer{{}, true, job.tokens, 0};
    answer.line = job.line.kind == BatchLine::kPlain
                      ? PlainVectorLine(job.line, vectors, job.tokens)
                      : AnswerLine(job.line, 200,
                                   EmbeddingsBody(job.call, name_, vectors, embeddings.dimensions,
                                                  job.tokens));
    sink(answer);
  }
  jobs_.clear();
  texts_.clear();
  return false;
}

}  // namespace oort::cli
