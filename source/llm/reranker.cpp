// SPDX-License-Identifier: MIT
#include "oort/reranker.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/guard.h"
#include "llm/text_encoder.h"
#include "oort/error.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

/// How many tokens of two texts are left where both may have `room`: the shorter one stays whole as
/// long as it is no more than half.
std::pair<size_t, size_t> CutLongest(size_t first, size_t second, size_t room) {
  if (first + second <= room) return {first, second};
  const size_t shorter = std::min({first, second, room / 2}), longer = room - shorter;
  return first <= second ? std::pair(shorter, longer) : std::pair(longer, shorter);
}

}  // namespace

struct Reranker::Impl {
  Tokenizer tokenizer;
  TextEncoder encoder;
  bool raw;
  int64_t max_tokens;
  size_t around = 0;  ///< tokens that stand around and between two texts

  Impl(const fs::path& folder, const RerankerOptions& options)
      : tokenizer(ReadEncoderTokenizer(folder)),
        encoder(folder, {.batch_tokens = options.batch_tokens,
                         .threads = options.threads,
                         .precision = options.precision,
                         .isa = options.isa,
                         .device = options.device,
                         .with_head = true,
                         .stop = options.stop,
                         .progress = options.progress}),
        raw(options.raw_scores || encoder.config().raw_scores),
        max_tokens(ReadMaxTokens(folder, options.max_tokens, encoder.most_tokens())) {
    encoder.SetLongest(max_tokens);
    around = tokenizer.JoinPair({}, {}).ids.size();
    if (max_tokens < static_cast<int64_t>(around) + 2) {
      throw Error(ErrorCode::kInvalidArgument, "max_tokens leaves no room for two texts");
    }
    const TokenPair probe = tokenizer.JoinPair({}, {});
    Score({&probe, 1}, options.stop);  // a head that does not fit is known before the first query
  }

  /// Throws where the model has no such type.
  void Check(const TokenPair& pair) const {
    CheckEncoderTokens(pair.ids, max_tokens, tokenizer);
    const int64_t types = std::max<int64_t>(encoder.config().types, 1);
    const bool fits = pair.types.size() == pair.ids.size() &&
                      std::ranges::all_of(pair.types, [&](int32_t t) { return t >= 0; });
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument, "a pair has a type, 0 or more, for each token");
    }
    if (encoder.config().types == 0) return;
    for (const int32_t type : pair.types) {
      if (type < types) continue;
      throw Error(ErrorCode::kInvalidArgument, "tokens of type " + std::to_string(type) +
                                                   " are not known to the model, which has " +
                                                   std::to_string(types) + " types");
    }
  }

  RerankScores Score(std::span<const TokenPair> pairs, const std::stop_token& stop) {
    RerankScores result;
    std::vector<std::vector<int32_t>> ids, types;
    for (const TokenPair& pair : pairs) {
      Check(pair);
      result.tokens += static_cast<int64_t>(pair.ids.size());
      ids.push_back(pair.ids);
      types.push_back(pair.types);
    }
    result.values.resize(pairs.size());
    encoder.Run(ids, types, stop, [&](const TextBatch& batch, const Tensor& output) {
      if (output.rank() != 2 || output.dim(1) != 1 || output.dtype() != DType::kF32) {
        throw Error(ErrorCode::kUnsupported,
                    "a reranker gives one score for each text; the head of this model gives " +
                        output.ToString());
      }
      for (size_t row = 0; row < batch.texts.size(); ++row) {
        const double logit = output.span<float>()[row];
        result.values[batch.texts[row]] =
            static_cast<float>(raw ? logit : 1 / (1 + std::exp(-logit)));
      }
    });
    return result;
  }

  TokenPair Encode(std::vector<int32_t> query, std::string_view text, bool& truncated) const {
    std::vector<int32_t> ids = tokenizer.Encode(text, {.add_special = false});
    const size_t room = static_cast<size_t>(max_tokens) - around;
    const auto [first, second] = CutLongest(query.size(), ids.size(), room);
    truncated = first < query.size() || second < ids.size();
    query.resize(first);
    ids.resize(second);
    return tokenizer.JoinPair(std::move(query), std::move(ids));
  }
};

Reranker::Reranker(const fs::path& folder, const RerankerOptions& options)
    : impl_(Guarded([&] {
        if (options.batch_tokens < 1 || options.max_tokens < 0) {
          throw Error(ErrorCode::kInvalidArgument, "numbers of tokens are not negative");
        }
        return std::make_unique<Impl>(folder, options);
      })) {}
Reranker::~Reranker() = default;
Reranker::Reranker(Reranker&&) noexcept = default;
Reranker& Reranker::operator=(Reranker&&) noexcept = default;

TokenPair Reranker::Encode(std::string_view query, std::string_view text, bool* truncated) const {
  return Guarded([&] {
    bool cut = false;
    TokenPair pair =
        impl_->Encode(impl_->tokenizer.Encode(query, {.add_special = false}), text, cut);
    if (truncated != nullptr) *truncated = cut;
    return pair;
  });
}

RerankScores Reranker::Score(std::string_view query, std::span<const std::string> texts,
                             const std::stop_token& stop) {
  return Guarded([&] {
    const std::vector<int32_t> ids = impl_->tokenizer.Encode(query, {.add_special = false});
    std::vector<TokenPair> pairs;
    pairs.reserve(texts.size());
    int64_t cut = 0;
    for (const std::string& text : texts) {
      bool truncated = false;
      pairs.push_back(impl_->Encode(ids, text, truncated));
      cut += truncated;
    }
    RerankScores scores = impl_->Score(pairs, stop);
    scores.truncated = cut;
    return scores;
  });
}

RerankScores Reranker::ScoreTokens(std::span<const TokenPair> pairs, const std::stop_token& stop) {
  return Guarded([&] { return impl_->Score(pairs, stop); });
}

int64_t Reranker::max_tokens() const { return impl_->max_tokens; }
const Tokenizer& Reranker::tokenizer() const { return impl_->tokenizer; }

std::vector<size_t> BestScores(std::span<const float> scores, size_t count) {
  std::vector<size_t> places(scores.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::ranges::stable_sort(places, [&](size_t a, size_t b) {
    return scores[a] > scores[b] || (std::isnan(scores[b]) && !std::isnan(scores[a]));
  });
  if (count > 0) places.resize(std::min(count, places.size()));
  return places;
}

bool IsReranker(const fs::path& folder) {
  return Guarded([&] { return HasScoringHead(folder); });
}

}  // namespace oort
