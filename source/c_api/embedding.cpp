// SPDX-License-Identifier: MIT
// Embedders and rerankers. In a file of its own, compiled alone: a static program without them then
// has nothing of what encodes texts.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "c_api/border.h"
#include "c_api/cancellation.h"
#include "c_api/options.h"
#include "oort/c_embedding.h"
#include "oort/embedder.h"
#include "oort/reranker.h"

struct oort_embedder {
  std::mutex mutex;  // of `embedder`
  oort::Embedder embedder;
  oort::c_api::Cancellation cancellation;
};

struct oort_reranker {
  std::mutex mutex;  // of `reranker`
  oort::Reranker reranker;
  oort::c_api::Cancellation cancellation;
};

namespace oort::c_api {
namespace {

/// So many texts are tokens at a time: their memory does not grow with their number.
constexpr size_t kTextsAtATime = 4096;

/// What both kinds of encoders have in their options.
template <typename Options>
void AssignEncoder(Options& encoder, const oort_options* options, std::stop_source& stop) {
  const LoadOptions load = LoadOptionsOf(options, stop);
  const Settings settings(options);
  encoder.device = load.device;
  encoder.isa = load.isa;
  encoder.precision = load.precision;
  encoder.stop = load.stop;
  encoder.progress = load.progress;
  encoder.threads = SessionOptionsOf(options).threads;
  encoder.max_tokens = settings.Integer("text_tokens").value_or(encoder.max_tokens);
  encoder.batch_tokens = settings.Integer("batch_tokens").value_or(encoder.batch_tokens);
}

EmbedderOptions EmbedderOptionsOf(const oort_options* options, std::stop_source& stop) {
  EmbedderOptions embedder;
  AssignEncoder(embedder, options, stop);
  const Settings settings(options);
  const std::string pooling = settings.Text("pooling").value_or("auto");
  embedder.pooling = pooling == "mean"  ? Pooling::kMean
                     : pooling == "cls" ? Pooling::kCls
                                        : Pooling::kAuto;
  embedder.normalize = settings.Flag("normalize").value_or(embedder.normalize);
  return embedder;
}

RerankerOptions RerankerOptionsOf(const oort_options* options, std::stop_source& stop) {
  RerankerOptions reranker;
  AssignEncoder(reranker, options, stop);
  const auto raw = Settings(options).Flag("raw_scores");
  reranker.raw_scores = raw.value_or(reranker.raw_scores);
  return reranker;
}

/// Memory that oort_free frees, until it is given away.
using CallersFloats = std::unique_ptr<float, void (*)(void*)>;

/// Texts as the caller has them.
struct GivenTexts {
  const char* const* texts;
  const size_t* lengths;
  size_t count;

  void Check() const {
    if (count > 0) Need(texts, "texts");
    for (size_t i = 0; i < count; ++i) {
      if (lengths == nullptr || lengths[i] > 0) Need(texts[i], "text " + std::to_string(i));
    }
  }
  std::vector<std::string> Part(size_t begin, size_t end) const {
    std::vector<std::string> part;
    part.reserve(end - begin);
    for (size_t i = begin; i < end; ++i) {
      const size_t length = lengths == nullptr ? std::strlen(texts[i]) : lengths[i];
      part.emplace_back(texts[i] == nullptr ? "" : texts[i], length);
    }
    return part;
  }
};

/// `compute` makes of some texts what has `values`, `width` for each, and `truncated`.
template <typename Compute>
CallersFloats InParts(const GivenTexts& given, size_t width, size_t* truncated,
                      const Compute& compute) {
  CallersFloats all(static_cast<float*>(AllocateForCaller(given.count, width * sizeof(float))),
                    oort_free);
  size_t cut = 0;
  for (size_t begin = 0; begin < given.count; begin += kTextsAtATime) {
    const auto some = compute(given.Part(begin, std::min(begin + kTextsAtATime, given.count)));
    std::copy(some.values.begin(), some.values.end(), all.get() + begin * width);
    cut += static_cast<size_t>(some.truncated);
  }
  if (truncated != nullptr) *truncated = cut;
  return all;
}

/// What the results are before there are any.
void ClearFloats(float** results, size_t* truncated, std::string_view what) {
  if (truncated != nullptr) *truncated = 0;
  Need(results, what);
  *results = nullptr;
}

}  // namespace
}  // namespace oort::c_api

using oort::c_api::AtBorder;
using oort::c_api::Need;

oort_code oort_embedder_load(const char* folder, const oort_options* options,
                             oort_embedder** embedder, oort_error** error) {
  return AtBorder(error, [&] {
    Need(embedder, "embedder");
    *embedder = nullptr;
    Need(folder, "folder");
    std::stop_source stop;
    const auto load = oort::c_api::EmbedderOptionsOf(options, stop);
    *embedder = new oort_embedder{{}, oort::Embedder(folder, load), {}};
  });
}

int64_t oort_embedder_dimensions(const oort_embedder* embedder) {
  return embedder == nullptr ? 0 : embedder->embedder.dimensions();
}

int64_t oort_embedder_max_tokens(const oort_embedder* embedder) {
  return embedder == nullptr ? 0 : embedder->embedder.max_tokens();
}

oort_code oort_embedder_embed(oort_embedder* embedder, const char* const* texts,
                              const size_t* lengths, size_t count, float** vectors,
                              size_t* truncated, oort_error** error) {
  return AtBorder(error, [&] {
    oort::c_api::ClearFloats(vectors, truncated, "vectors");
    Need(embedder, "embedder");
    const oort::c_api::GivenTexts given{texts, lengths, count};
    given.Check();
    const std::lock_guard lock(embedder->mutex);
    const oort::c_api::Cancellation::Scope scope(embedder->cancellation);
    const auto width = static_cast<size_t>(embedder->embedder.dimensions());
    const auto embed = [&](const std::vector<std::string>& part) {
      return embedder->embedder.Embed(part, scope.token());
    };
    *vectors = oort::c_api::InParts(given, width, truncated, embed).release();
  });
}

void oort_embedder_cancel(oort_embedder* embedder) {
  if (embedder != nullptr) embedder->cancellation.Cancel();
}

void oort_embedder_free(oort_embedder* embedder) { delete embedder; }

oort_code oort_reranker_load(const char* folder, const oort_options* options,
                             oort_reranker** reranker, oort_error** error) {
  return AtBorder(error, [&] {
    Need(reranker, "reranker");
    *reranker = nullptr;
    Need(folder, "folder");
    std::stop_source stop;
    const auto load = oort::c_api::RerankerOptionsOf(options, stop);
    *reranker = new oort_reranker{{}, oort::Reranker(folder, load), {}};
  });
}

int64_t oort_reranker_max_tokens(const oort_reranker* reranker) {
  return reranker == nullptr ? 0 : reranker->reranker.max_tokens();
}

oort_code oort_reranker_score(oort_reranker* reranker, const char* query, size_t query_length,
                              const char* const* texts, const size_t* lengths, size_t count,
                              float** scores, size_t* truncated, oort_error** error) {
  return AtBorder(error, [&] {
    oort::c_api::ClearFloats(scores, truncated, "scores");
    Need(reranker, "reranker");
    if (query_length > 0) Need(query, "query");
    const oort::c_api::GivenTexts given{texts, lengths, count};
    given.Check();
    const std::string_view asked(query == nullptr ? "" : query, query_length);
    const std::lock_guard lock(reranker->mutex);
    const oort::c_api::Cancellation::Scope scope(reranker->cancellation);
    const auto score = [&](const std::vector<std::string>& part) {
      return reranker->reranker.Score(asked, part, scope.token());
    };
    *scores = oort::c_api::InParts(given, 1, truncated, score).release();
  });
}

void oort_reranker_cancel(oort_reranker* reranker) {
  if (reranker != nullptr) reranker->cancellation.Cancel();
}

void oort_reranker_free(oort_reranker* reranker) { delete reranker; }
