// SPDX-License-Identifier: MIT
#include "openai/common_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "core/problems.h"

namespace oort::openai {
namespace {

constexpr double kLongestSeconds = 24 * 3600;

/// The fields of OpenAI's that change nothing here: who asks, and how it is accounted.
void IgnoreBookkeeping(Fields& fields) {
  fields.Ignore({"user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention"});
  if (fields.Bool("store").value_or(false)) {
    fields.Fail("store", "is not taken: nothing is stored here");
  }
}

void ReadSampling(Fields& fields, SamplingOptions& sampling) {
  const auto number = [&](std::string_view key, double least, double most, float& target) {
    if (const auto given = fields.Number(key, least, most)) target = static_cast<float>(*given);
  };
  number("temperature", 0, 2, sampling.temperature);
  number("top_p", 0, 1, sampling.top_p);
  number("min_p", 0, 1, sampling.min_p);
  number("presence_penalty", -2, 2, sampling.presence_penalty);
  number("frequency_penalty", -2, 2, sampling.frequency_penalty);
  number("repetition_penalty", 0, 100, sampling.repetition_penalty);
  if (const auto k = fields.Integer("top_k", -1, INT32_MAX)) {
    sampling.top_k = std::max<int64_t>(*k, 0);  // vLLM's -1 stands for all
  }
  // OpenAI's 0 stands for the likeliest token alone, whatever top_k is.
  if (sampling.top_p == 0) sampling.top_k = 1, sampling.top_p = 1;
  const auto seed = fields.Integer("seed", INT64_MIN, INT64_MAX);
  std::random_device random;
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : uint64_t{random()} << 32 | random();
  try {
    const Sampler check(sampling);
  } catch (const Error& error) {
    throw RequestError(std::string(), error.what());
  }
}

/// {"50256": -100}
void ReadBiases(Fields& fields, SamplingOptions& sampling, size_t vocabulary, size_t most) {
  const Json* biases = fields.Object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > most) {
    fields.Fail("logit_bias", "has " + std::to_string(biases->size()) + " tokens, at most " +
                                  std::to_string(most) + " are taken");
  }
  for (const auto& [key, value] : biases->items()) {
    uint32_t token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token >= vocabulary) {
      fields.Fail("logit_bias", "has the key " + Quote(key) + ", which is no id of a token");
    }
    if (!value.is_number() || std::abs(value.get<double>()) > 100) {
      fields.Fail("logit_bias", "must hold numbers from -100 to 100");
    }
    sampling.logit_bias.emplace_back(static_cast<int32_t>(token), value.get<float>());
  }
}

std::vector<std::string> ReadStops(Fields& fields, const Limits& limits) {
  std::vector<std::string> stops;
  const Json* stop = fields.Find("stop");
  if (stop == nullptr) return stops;
  if (stop->is_string()) {
    stops.push_back(stop->get<std::string>());
  } else {
    for (const Json& text : *fields.List("stop", limits.stops)) {
      if (!text.is_string()) fields.Fail("stop", "must be a string or a list of strings");
      stops.push_back(text.get<std::string>());
    }
  }
  size_t bytes = 0;
  for (const std::string& text : stops) {
    bytes += text.size();
    if (text.empty()) fields.Fail("stop", "must not be empty");
  }
  if (bytes > limits.stop_bytes) {
    fields.Fail("stop", "has " + std::to_string(bytes) + " bytes, at most " +
                            std::to_string(limits.stop_bytes) + " are taken");
  }
  return stops;
}

void ReadStream(Fields& fields, GenerateCall& call) {
  call.stream = fields.Bool("stream").value_or(false);
  const Json* options = fields.Object("stream_options");
  if (options == nullptr) return;
  if (!call.stream) fields.Fail("stream_options", "is taken only with \"stream\": true");
  Fields inner(*options, fields.PathOf("stream_options"));
  call.include_usage = inner.Bool("include_usage").value_or(false);
  call.continuous_usage = inner.Bool("continuous_usage_stats").value_or(false);
  inner.Ignore({"include_obfuscation"});
  inner.CheckAllKnown();
}

}  // namespace

CommonFields ReadCommonFields(Fields& fields, const ServedModel& served, const Limits& limits) {
  CommonFields common;
  GenerateRequest& request = common.request;
  GenerateCall& call = common.call;
  CheckModelName(fields, served.name, served.aliases, served.any_name);
  IgnoreBookkeeping(fields);
  request.adapter = served.adapter;
  request.sampling = served.sampling;
  ReadSampling(fields, request.sampling);
  ReadBiases(fields, request.sampling, static_cast<size_t>(served.model->info().vocabulary),
             limits.biases);
  request.stops = ReadStops(fields, limits);
  request.ignore_end = call.ignore_end = fields.Bool("ignore_eos").value_or(false);
  for (const std::string_view key : {"max_tokens", "max_completion_tokens"}) {
    if (const auto most = fields.Integer(key, 0, INT32_MAX)) {
      request.max_tokens = *most;
      common.max_tokens_given = true;
    }
  }
  call.n = request.n = fields.Integer("n", 1, limits.choices).value_or(1);
  call.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  ReadStream(fields, call);
  // As in vLLM, lower ones begin earlier.
  request.priority = static_cast<int>(-fields.Integer("priority", -1000, 1000).value_or(0));
  request.cache_salt = fields.Text("cache_salt").value_or("");
  if (request.cache_salt.size() > 256) fields.Fail("cache_salt", "has more than 256 bytes");
  if (const auto most = ReadTimeout(fields)) {
    request.deadline = std::chrono::steady_clock::now() + *most;
  }
  AnswerForm form = ReadAnswerForm(fields, *served.model, *served.forms);
  request.constraint = std::move(form.constraint);
  common.holds_json = form.json;
  request.min_tokens = fields.Integer("min_tokens", 0, INT32_MAX).value_or(0);
  call.include_stop = fields.Bool("include_stop_str_in_output").value_or(false);
  if (const Json* ids = fields.List("stop_token_ids", limits.stop_tokens)) {
    request.stop_tokens = ReadIds(*ids, fields.PathOf("stop_token_ids"),
                                  static_cast<size_t>(served.model->info().vocabulary));
  }
  return common;
}

std::optional<std::chrono::steady_clock::duration> ReadTimeout(Fields& fields) {
  const auto seconds = fields.Number("timeout", 0.001, kLongestSeconds);
  if (!seconds) return {};
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(*seconds));
}

std::vector<int32_t> ReadIds(const Json& list, const std::string& path, size_t vocabulary) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocabulary) {
      throw RequestError(path, Quote(path) + " must hold ids of tokens, whole numbers below " +
                                   std::to_string(vocabulary));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

namespace {

void CheckApart(const LanguageModel& model, std::span<const int32_t> prompt,
                const std::string& param) {
  try {
    model.CheckPrompt(prompt);
  } catch (const Error& error) {
    throw RequestError({.message = "the prompt cannot be read: " + std::string(error.what()),
                        .param = param,
                        .code = "context_length_exceeded"});
  }
}

}  // namespace

void AddPrompt(GenerateCall& call, const GenerateRequest& pattern, std::vector<int32_t> prompt,
               const ServedModel& served, const std::string& param) {
  const int64_t model_context = served.model->info().context;
  const int64_t context =
      served.context > 0 ? std::min(served.context, model_context) : model_context;
  const auto tokens = static_cast<int64_t>(prompt.size());
  if (tokens == 0) throw RequestError(param, Quote(param) + " has no tokens");
  // An encoder reads a prompt apart from the answer, and says itself what is too long for it.
  const bool apart = served.model->info().encodes_prompts;
  if (apart) CheckApart(*served.model, prompt, param);
  if (!apart && tokens >= context && !(tokens == context && pattern.max_tokens == 0)) {
    throw RequestError({.message = "the prompt has " + std::to_string(tokens) +
                                   " tokens, and prompt and answer have room for " +
                                   std::to_string(context) + " together",
                        .param = param,
                        .code = "context_length_exceeded"});
  }
  PromptFacts facts;
  facts.tokens = tokens;
  if (call.return_token_ids || pattern.prompt_logprobs >= 0) facts.ids = prompt;
  call.prompts.push_back(std::move(facts));
  call.requests.push_back(pattern);
  call.requests.back().prompt = std::move(prompt);
}

void CheckModelName(Fields& fields, std::string_view name, const std::vector<std::string>& aliases,
                    bool any_name) {
  const auto given = fields.Text("model");
  if (!given || any_name || *given == name) return;
  if (std::ranges::find(aliases, *given) != aliases.end()) return;
  throw RequestError({.status = 404,
                      .message = "there is no model " + Quote(*given) + " here, but " + Quote(name),
                      .param = "model",
                      .code = "model_not_found"});
}

Json ParseBody(std::string_view body, const Limits& limits) {
  if (body.size() > limits.body_bytes) {
    throw RequestError(
        {.status = 413,
         .message = "the request has more than " + std::to_string(limits.body_bytes) + " bytes",
         .code = "request_too_large"});
  }
  try {
    return json::ParseOrdered(body, "the request");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    throw RequestError(std::string(), error.what());
  }
}

}  // namespace oort::openai
