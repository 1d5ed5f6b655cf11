// SPDX-License-Identifier: MIT
#include "llm/encoder_decoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "decoder/encoder_decoder.h"
#include "llm/relative_position.h"
#include "oort/error.h"
#include "oort/runtime_graph.h"

namespace oort {
namespace {

// Plans depend on shapes, so the cache grows in large steps.
constexpr int64_t kRoomStep = 64;
constexpr float kUnseen = -std::numeric_limits<float>::infinity();

/// The table of biases by distance, a row for each bucket.
std::vector<float> ReadBiases(const EncoderDecoderFiles& files, std::string_view stack) {
  if (files.config.buckets == 0) return {};
  const std::string name =
      std::string(stack) + std::string(files.config.names.relative) + ".weight";
  const PlacedTensor* placed = files.tensors.Find(name);
  if (placed == nullptr || placed->rank != 2 || placed->rows != files.config.buckets ||
      placed->columns != files.config.heads) {
    throw Error(ErrorCode::kInvalidModel,
                "'" + name + "' should have a bias for each bucket and head");
  }
  std::vector<float> biases(static_cast<size_t>(placed->rows * placed->columns));
  ReadRows(files.tensors.Matrix(name), 0, placed->rows, biases.data());
  return biases;
}

/// Copies the tokens of `from` to those of `to` from `first` on; both (1, heads, tokens, width).
void CopyTokens(const Tensor& from, Tensor& to, int64_t first) {
  const int64_t width = from.dim(3), count = from.dim(2) * width;
  for (int64_t head = 0; head < from.dim(1); ++head) {
    std::copy_n(from.data<float>() + head * count, count,
                to.data<float>() + (head * to.dim(2) + first) * width);
  }
}

Tensor TokenTensor(std::span<const int32_t> tokens) {
  return Tensor::From(tokens, Shape{static_cast<int64_t>(tokens.size())});
}

}  // namespace

EncoderDecoder::EncoderDecoder(const std::filesystem::path& folder,
                               const EncoderDecoderOptions& options)
    : folder_(folder) {
  const EncoderDecoderFiles files = ReadEncoderDecoder(folder);
  config_ = files.config;
  encoder_bias_ = ReadBiases(files, config_.names.encoder);
  decoder_bias_ = ReadBiases(files, config_.names.decoder);
  EncoderDecoderGraphs graphs = BuildEncoderDecoder(files);
  LoadOptions load;
  load.isa = options.isa;
  const SessionOptions session{.threads = options.threads};
  encoder_ =
      std::make_unique<Session>(RuntimeGraph::Build(std::move(graphs.encoder), load), session);
  decoder_ =
      std::make_unique<Session>(RuntimeGraph::Build(std::move(graphs.decoder), load), session);
}

void EncoderDecoder::CheckTokens(std::span<const int32_t> tokens) const {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < config_.vocabulary) continue;
    throw Error(ErrorCode::kInvalidArgument, "token " + std::to_string(token) +
                                                 " is not among the model's " +
                                                 std::to_string(config_.vocabulary));
  }
}

int64_t EncoderDecoder::BucketOf(int64_t distance, bool both_ways) const {
  return RelativeBucket(distance, both_ways, config_.buckets, config_.max_distance);
}

Tensor EncoderDecoder::EncoderBias(int64_t tokens) const {
  constexpr int64_t kMostBiases = int64_t{1} << 28;
  if (config_.heads > kMostBiases / (tokens * tokens)) {
    throw Error(ErrorCode::kLimit, "a text of " + std::to_string(tokens) +
                                       " tokens is too long for " + std::to_string(config_.heads) +
                                       " heads");
  }
  Tensor bias(DType::kF32, {1, config_.heads, tokens, tokens});
  std::vector<int64_t> buckets;  // of distances from 1 - tokens on
  for (int64_t d = 1 - tokens; d < tokens; ++d) buckets.push_back(BucketOf(d, true));
  float* to = bias.data<float>();
  for (int64_t head = 0; head < config_.heads; ++head) {
    for (int64_t query = 0; query < tokens; ++query) {
      for (int64_t key = 0; key < tokens; ++key) {
        const int64_t bucket = buckets[static_cast<size_t>(key - query + tokens - 1)];
        *to++ = encoder_bias_[static_cast<size_t>(bucket * config_.heads + head)];
      }
    }
  }
  return bias;
}

Tensor EncoderDecoder::DecoderMask() const {
  const int64_t room = cache_[0].dim(2), heads = config_.buckets > 0 ? config_.heads : 1;
  Tensor mask(DType::kF32, {1, heads, 1, room + 1});
  for (int64_t head = 0; head < heads; ++head) {
    const auto bias = [&](int64_t distance) {
      if (config_.buckets == 0) return 0.0F;
      return decoder_bias_[static_cast<size_t>(BucketOf(distance, false) * heads + head)];
    };
    float* row = mask.data<float>() + head * (room + 1);
    for (int64_t key = 0; key < room; ++key)
      row[key] = key < cached_ ? bias(key - cached_) : kUnseen;
    row[room] = bias(0);
  }
  return mask;
}

void EncoderDecoder::Read(std::span<const int32_t> tokens) {
  CheckTokens(tokens);
  const auto count = static_cast<int64_t>(tokens.size());
  if (count < 1 || count > config_.most_tokens()) {
    throw Error(ErrorCode::kInvalidArgument, "a text has 1 to " +
                                                 std::to_string(config_.most_tokens()) +
                                                 " tokens, this one " + std::to_string(count));
  }
  std::vector<Tensor> inputs = {TokenTensor(tokens)};
  if (config_.positions > 0) {
    std::vector<int32_t> places(tokens.size());
    for (size_t i = 0; i < places.size(); ++i) {
      places[i] = static_cast<int32_t>(i + EncoderDecoderConfig::kPositionOffset);
    }
    inputs.push_back(TokenTensor(places));
  }
  if (config_.buckets > 0) inputs.push_back(EncoderBias(count));
  heard_ = encoder_->Forward(inputs);
  cache_.clear();
  cached_ = 0;
}

void EncoderDecoder::MakeRoom() {
  std::vector<Tensor> larger;
  for (size_t i = 0; i < heard_.size(); ++i) {
    const int64_t room = kRoomStep + (cache_.empty() ? 0 : cache_[i].dim(2));
    larger.push_back(Tensor::Zeros(DType::kF32, {1, config_.heads, room, config_.head_dim}));
    if (!cache_.empty()) CopyTokens(cache_[i], larger[i], 0);
  }
  cache_ = std::move(larger);
}

std::span<const float> EncoderDecoder::Step(int32_t token) {
  CheckTokens({&token, 1});
  if (heard_.empty() || cached_ >= config_.most_tokens()) {
    throw Error(ErrorCode::kInvalidArgument,
                heard_.empty()
                    ? "no text was read"
                    : "an answer has at most " + std::to_string(config_.most_tokens()) + " tokens");
  }
  if (cache_.empty() || cached_ >= cache_[0].dim(2)) MakeRoom();
  std::vector<Tensor> inputs = {TokenTensor({&token, 1})};
  const auto place = static_cast<int32_t>(cached_ + EncoderDecoderConfig::kPositionOffset);
  if (config_.positions > 0) inputs.push_back(TokenTensor({&place, 1}));
  inputs.push_back(DecoderMask());
  inputs.insert(inputs.end(), cache_.begin(), cache_.end());
  inputs.insert(inputs.end(), heard_.begin(), heard_.end());
  const std::vector<Tensor> results = decoder_->Forward(inputs);
  for (size_t i = 0; i < cache_.size(); ++i) CopyTokens(results.at(i + 1), cache_[i], cached_);
  ++cached_;
  logits_ = results[0];
  return logits_.span<float>();
}

bool EncoderDecoder::IsEnd(int32_t token) const {
  return std::ranges::find(config_.end_tokens, token) != config_.end_tokens.end();
}

TextAnswer EncoderDecoder::Answer(std::span<const int32_t> tokens, Sampler& sampler, int64_t most,
                                  bool ignore_end, const std::function<bool(int32_t)>& on_token) {
  Read(tokens);
  TextAnswer answer;
  most = std::min(most, config_.most_tokens());
  int32_t token = config_.start_token;
  while (static_cast<int64_t>(answer.tokens.size()) < most) {
    const std::span<const float> logits = Step(token);
    const bool forced = answer.tokens.empty() && config_.forced_first.has_value();
    token = forced ? *config_.forced_first : sampler.Sample(logits).token;
    if (forced) sampler.Accept(token);
    answer.ended = !ignore_end && IsEnd(token);
    if (answer.ended) break;
    answer.tokens.push_back(token);
    if (on_token && !on_token(token)) break;
  }
  return answer;
}

}  // namespace oort
