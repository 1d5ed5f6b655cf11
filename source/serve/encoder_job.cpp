// SPDX-License-Identifier: MIT
#include "serve/encoder_job.h"

#include <utility>

#include "oort/error.h"

namespace oort::serve {
namespace {

void SendAnswer(EncoderLoop& loop, const Context& context, const EncoderJob& job,
                const std::vector<float>& values, std::exception_ptr failure) {
  Metrics& metrics = loop.metrics();
  if (job.left) {
    ++metrics.left;
    return;
  }
  std::string body;
  try {
    if (!failure) body = job.body(values);
  } catch (...) {
    failure = std::current_exception();
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
  context.Send(200, std::move(body));
}

}  // namespace

void Begin(EncoderLoop& loop, const Context& context, const std::shared_ptr<EncoderJob>& job) {
  for (const TokenPair& text : job->texts) job->tokens += std::ssize(text.ids);
  context.reply.OnGone([job] { job->left = true; });
  try {
    loop.Submit(
        std::move(job->texts), [job] { return !job->left; },
        [&loop, context, job](const std::vector<float>& values, const std::exception_ptr& failure) {
          SendAnswer(loop, context, *job, values, failure);
        });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kLimit) throw;
    ++loop.metrics().rejected_full;
    context.SendError(QueueFull(error.what()));
  }
}

}  // namespace oort::serve
