// SPDX-License-Identifier: MIT
#include "cli/batch_worker.h"

#include <algorithm>

#include "openai/response.h"

namespace oort::cli {

using openai::ApiErrorOf;
using openai::Endpoint;
using openai::GenerateCall;
using openai::RequestError;

LanguageWorker::LanguageWorker(openai::ServedModel served, const EngineOptions& options,
                               PlainOptions plain, int64_t most_requests)
    : served_(std::move(served)),
      plain_(std::move(plain)),
      engine_(served_.model, options),
      most_requests_(most_requests) {
  if (served_.context == 0) served_.context = engine_.cache_tokens();
}

/// A prompt is answered as `oort generate` does it.
GenerateCall LanguageWorker::PlainCall(const BatchLine& line) const {
  const LanguageModel& model = *served_.model;
  std::vector<int32_t> prompt;
  if (plain_.raw) {
    prompt = model.tokenizer().Encode(line.prompt);
  } else {
    std::vector<ChatMessage> messages;
    if (!plain_.system.empty()) messages.push_back({"system", plain_.system});
    messages.push_back({"user", line.prompt});
    prompt = model.EncodeChat(messages);
  }
  GenerateCall call;
  call.prompts.push_back({static_cast<int64_t>(prompt.size()), {}, {}});
  GenerateRequest request = plain_.answer.Request(std::move(prompt));
  // Lines differ, and each has the same seed when a run is continued.
  request.sampling.seed += static_cast<uint64_t>(line.number);
  call.requests.push_back(std::move(request));
  return call;
}

GenerateCall LanguageWorker::CallOf(const BatchLine& line) const {
  switch (line.kind) {
    case BatchLine::kChat: return ParseChatRequest(line.body, served_);
    case BatchLine::kCompletions: return ParseCompletionsRequest(line.body, served_);
    case BatchLine::kEmbeddings:
      throw RequestError("url", "this model writes text: embeddings need an encoder");
    case BatchLine::kPlain: break;
  }
  return PlainCall(line);
}

void LanguageWorker::Add(BatchLine line, const AnswerSink& sink) {
  Job job{std::move(line), {}, {}, {}, {}};
  try {
    job.call = CallOf(job.line);
    for (GenerateRequest& request : job.call.requests) {
      job.pending.push_back(engine_.Submit(std::move(request)));
    }
  } catch (...) {
    for (const int64_t number : job.pending) engine_.Cancel(number);
    sink({ErrorLine(job.line, ApiErrorOf(std::current_exception())), false, 0, 0});
    return;
  }
  job.line.body = {};
  job.results.resize(job.pending.size());
  requests_ += static_cast<int64_t>(job.pending.size());
  jobs_.push_back(std::move(job));
}

bool LanguageWorker::Collect(Job& job) {
  for (size_t i = 0; i < job.pending.size(); ++i) {
    if (job.pending[i] < 0) continue;
    try {
      auto result = engine_.Take(job.pending[i]);
      if (!result) continue;
      job.results[i] = std::move(*result);
    } catch (...) {
      job.failure = std::current_exception();
    }
    job.pending[i] = -1;
    --requests_;
  }
  return std::ranges::all_of(job.pending, [](int64_t number) { return number < 0; });
}

BatchAnswer LanguageWorker::Finish(const Job& job) const {
  if (job.failure) return {ErrorLine(job.line, ApiErrorOf(job.failure)), false, 0, 0};
  const openai::Usage usage = UsageOf(job.call, served_, job.results);
  BatchAnswer answer{{}, true, usage.prompt, usage.completion};
  if (job.line.kind == BatchLine::kPlain) {
    answer.line = PlainAnswerLine(job.line, job.results[0], usage.prompt);
  } else {
    const openai::ResponseHead head = openai::NewResponseHead(job.call.endpoint);
    answer.line = AnswerLine(job.line, 200, ResponseBody(job.call, served_, head, job.results));
  }
  return answer;
}

bool LanguageWorker::Step(const AnswerSink& sink) {
  engine_.Step();
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    if (Collect(*job)) {
      sink(Finish(*job));
      job = jobs_.erase(job);
    } else {
      ++job;
    }
  }
  return !jobs_.empty();
}

}  // namespace oort::cli
