// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/problems.h"
#include "openai/common_fields.h"

namespace oort::openai {
namespace {

constexpr int64_t kDefaultTokens = 16;  // OpenAI's
constexpr int64_t kMostLogprobs = 20;   // OpenAI: 5; the chats have 20

/// The tokens of a text; of an empty one what begins every text, if the model has that.
std::vector<int32_t> EncodePrompt(const std::string& text, const ServedModel& served,
                                  const std::string& path) {
  const Tokenizer& tokenizer = served.model->tokenizer();
  std::vector<int32_t> ids = tokenizer.Encode(text);
  if (ids.empty() && tokenizer.bos()) ids.push_back(*tokenizer.bos());
  if (ids.empty()) throw RequestError(path, Quote(path) + " is empty, and the model needs a token");
  return ids;
}

/// A text, ids, or a list of either.
class PromptReader {
 public:
  PromptReader(CommonFields& common, const ServedModel& served, int64_t most)
      : common_(common), served_(served), most_(most) {}

  void Read(const Json& prompt) {
    const bool one =
        prompt.is_string() || (prompt.is_array() && !prompt.empty() && prompt[0].is_number());
    if (one) {
      Add(prompt, "prompt");
      return;
    }
    if (!prompt.is_array() || prompt.empty()) Fail("prompt");
    const auto count = static_cast<int64_t>(prompt.size());
    const int64_t made = std::max(common_.request.n, common_.request.best_of);
    if (count > most_ / made) {
      throw RequestError("prompt", "\"prompt\" asks for " + std::to_string(count) + " × " +
                                       std::to_string(made) + " answers, at most " +
                                       std::to_string(most_) + " are given at once");
    }
    for (size_t i = 0; i < prompt.size(); ++i) Add(prompt[i], ItemPath("prompt", i));
  }

 private:
  [[noreturn]] static void Fail(const std::string& path) {
    throw RequestError(path,
                       Quote(path) + " must be a text, a list of token ids, or a list of these");
  }

  void Add(const Json& prompt, const std::string& path) {
    std::vector<int32_t> ids;
    std::string text;
    if (prompt.is_string()) {
      text = prompt.get<std::string>();
      ids = EncodePrompt(text, served_, path);
    } else if (prompt.is_array()) {
      ids = ReadIds(prompt, path, static_cast<size_t>(served_.model->info().vocabulary));
      if (common_.call.echo) text = served_.model->tokenizer().Decode(ids);
    } else {
      Fail(path);
    }
    AddPrompt(common_.call, common_.request, std::move(ids), served_, path);
    if (common_.call.echo) common_.call.prompts.back().text = std::move(text);
  }

  CommonFields& common_;
  const ServedModel& served_;
  int64_t most_;
};

}  // namespace

GenerateCall ParseCompletionsRequest(const Json& body, const ServedModel& served,
                                     const Limits& limits) {
  Fields fields(body);
  CommonFields common = ReadCommonFields(fields, served, limits);
  GenerateCall& call = common.call;
  call.endpoint = Endpoint::kCompletions;
  if (!common.max_tokens_given) common.request.max_tokens = kDefaultTokens;
  call.echo = fields.Bool("echo").value_or(false);
  if (common.request.max_tokens == 0 && !call.echo) {
    fields.Fail("max_tokens", "must be at least 1 without \"echo\"");
  }
  if (const auto logprobs = fields.Integer("logprobs", 0, kMostLogprobs)) {
    call.logprobs = true;
    common.request.sampling.top_logprobs = static_cast<int>(*logprobs);
    if (call.echo) common.request.prompt_logprobs = static_cast<int>(*logprobs);
  }
  if (const auto best_of = fields.Integer("best_of", 1, limits.best_of)) {
    if (*best_of < call.n) fields.Fail("best_of", "must be at least \"n\"");
    if (*best_of > call.n && call.stream) fields.Fail("best_of", "is not taken with \"stream\"");
    if (*best_of > call.n) common.request.best_of = *best_of;
  }
  fields.Refuse("suffix", "this model does not fill in the middle");
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) fields.Fail("prompt", "is missing");
  fields.CheckAllKnown();
  PromptReader(common, served, limits.choices).Read(*prompt);
  return std::move(call);
}

}  // namespace oort::openai
