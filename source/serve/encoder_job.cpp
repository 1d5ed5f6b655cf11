// SPDX-License-Identifier: MIT
#include "serve/encoder_job.h"

#include <algorithm>
#include <utility>

#include "oort/error.h"

namespace oort::serve {
namespace {

using Clock = std::chrono::steady_clock;

openai::ApiError TextsTooLate() {
  return {504, "the texts were not read in time", "server_error", "", "deadline"};
}

void SendAnswer(EncoderLoop& loop, EncoderJob& job, const std::vector<float>& values,
                std::exception_ptr failure) {
  Metrics& metrics = loop.metrics();
  const Context& context = *job.context;
  if (job.over) return;
  std::string body;
  try {
    if (!failure) body = job.body(values);
  } catch (...) {
    failure = std::current_exception();
  }
  if (job.over.exchange(true)) return;
  if (failure) {
    ++metrics.failed;
    return context.SendError(context.ErrorOf(failure));
  }
  ++metrics.finished[static_cast<size_t>(FinishReason::kStop)];
  metrics.prompt_tokens.Observe(static_cast<double>(job.tokens));
  const std::chrono::duration<double> time = Clock::now() - context.arrived;
  metrics.end_to_end.Observe(time.count());
  context.reply.Note("request=" + context.id + " key=" + std::to_string(context.key) +
                     " prompt_tokens=" + std::to_string(job.tokens));
  context.Send(200, std::move(body));
}

}  // namespace

std::chrono::steady_clock::time_point DeadlineOf(const std::optional<Clock::duration>& timeout,
                                                 const Services& services, const Context& context) {
  const Clock::duration most = services.most_time;
  return context.arrived + std::min(timeout.value_or(most), most);
}

void Begin(EncoderLoop& loop, const Context& context, const std::shared_ptr<EncoderJob>& job) {
  const Clock::time_point now = Clock::now();
  if (job->deadline <= now) throw openai::RequestError(TextsTooLate());
  job->context = context;
  for (const TokenPair& text : job->texts) job->tokens += std::ssize(text.ids);
  // Both know the job only while the loop has it: it holds their reply.
  context.reply.OnGone([weak = std::weak_ptr(job), &loop] {
    const auto left = weak.lock();
    if (left && !left->over.exchange(true)) ++loop.metrics().left;
  });
  if (job->deadline != Clock::time_point::max()) {
    const auto most = std::chrono::ceil<std::chrono::milliseconds>(job->deadline - now);
    context.reply.OnQuiet(most, [weak = std::weak_ptr(job), &loop] {
      const auto late = weak.lock();
      if (!late || late->over.exchange(true)) return;
      ++loop.metrics().failed;
      late->context->SendError(TextsTooLate());
    });
  }
  try {
    loop.Submit(
        std::move(job->texts), [job] { return !job->over; },
        [&loop, job](const std::vector<float>& values, const std::exception_ptr& failure) {
          SendAnswer(loop, *job, values, failure);
        });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kLimit) throw;
    job->over = true;
    ++loop.metrics().rejected_full;
    context.SendError(QueueFull(error.what()));
  }
}

}  // namespace oort::serve
