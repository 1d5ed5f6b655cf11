// SPDX-License-Identifier: MIT
#include "llm/text_reader.h"

#include <string>
#include <utility>

#include "decoder/encoder_decoder.h"
#include "decoder/relative_position.h"
#include "oort/error.h"
#include "oort/runtime_graph.h"

namespace oort {
namespace {

constexpr int64_t kMostBiases = int64_t{1} << 28;  // of all heads for a text

}  // namespace

TextReader::TextReader(const EncoderDecoderFiles& files, Graph encoder, const LoadOptions& load,
                       int threads)
    : config_(files.config),
      biases_(BucketBiases(files, files.config.names.encoder)),
      session_(std::make_unique<Session>(RuntimeGraph::Build(std::move(encoder), load),
                                         SessionOptions{.threads = threads})) {}

ReaderMemory TextReader::memory() const {
  const int64_t most = LongestText();
  std::vector<Tensor> inputs = {Tensor::Meta(DType::kI32, Shape{most})};
  if (config_.positions > 0) inputs.push_back(inputs[0]);
  size_t bias = 0;
  if (config_.buckets > 0) {
    inputs.push_back(Tensor::Meta(DType::kF32, Shape{1, config_.heads, most, most}));
    bias = inputs.back().bytes();
  }
  const MemoryReport report = session_->graph().Plan(inputs, session_->threads()).memory;
  return {.weights = report.weights, .activations = report.arena + report.outputs + bias};
}

int64_t TextReader::LongestText() const {
  int64_t most = config_.most_tokens();
  while (config_.buckets > 0 && most > 1 && config_.heads > kMostBiases / (most * most)) most /= 2;
  return most;
}

void TextReader::Check(std::span<const int32_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count < 1 || count > LongestText()) {
    throw Error(ErrorCode::kInvalidArgument, "a text has 1 to " + std::to_string(LongestText()) +
                                                 " tokens, this one " + std::to_string(count));
  }
  for (const int32_t token : tokens) {
    if (token >= 0 && token < config_.vocabulary) continue;
    throw Error(ErrorCode::kInvalidArgument, "token " + std::to_string(token) +
                                                 " is not among the model's " +
                                                 std::to_string(config_.vocabulary));
  }
}

Tensor TextReader::Bias(int64_t tokens) const {
  Tensor bias(DType::kF32, {1, config_.heads, tokens, tokens});
  std::vector<int64_t> buckets;  // of distances from 1 - tokens on
  for (int64_t d = 1 - tokens; d < tokens; ++d) {
    buckets.push_back(RelativeBucket(d, true, config_.buckets, config_.max_distance));
  }
  float* to = bias.data<float>();
  for (int64_t head = 0; head < config_.heads; ++head) {
    for (int64_t query = 0; query < tokens; ++query) {
      for (int64_t key = 0; key < tokens; ++key) {
        const int64_t bucket = buckets[static_cast<size_t>(key - query + tokens - 1)];
        *to++ = biases_[static_cast<size_t>(bucket * config_.heads + head)];
      }
    }
  }
  return bias;
}

std::vector<Tensor> TextReader::InputsFor(std::span<const int32_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  std::vector<Tensor> inputs = {Tensor::From(tokens, Shape{count})};
  if (config_.positions > 0) {
    Tensor places(DType::kI32, Shape{count});
    for (int32_t i = 0; i < count; ++i) places.data<int32_t>()[i] = i;
    inputs.push_back(std::move(places));
  }
  if (config_.buckets > 0) inputs.push_back(Bias(count));
  return inputs;
}

std::shared_ptr<EncodedText> TextReader::Read(std::span<const int32_t> tokens) const {
  Check(tokens);
  const std::lock_guard lock(mutex_);
  std::vector<Tensor> sides = session_->Forward(InputsFor(tokens));
  auto text = std::make_shared<EncodedText>();
  for (size_t i = 0; i + 1 < sides.size(); i += 2) {
    text->keys.push_back(std::move(sides[i]));
    text->values.push_back(std::move(sides[i + 1]));
  }
  return text;
}

Error NotOfEncoderDecoders(std::string_view what) {
  return {ErrorCode::kUnsupported,
          std::string(what) +
              " is not for encoder-decoders (t5, mt5, bart), which read the prompt "
              "by itself before they answer"};
}

}  // namespace oort
