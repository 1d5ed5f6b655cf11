// SPDX-License-Identifier: MIT
#include "serve/generate_job.h"

#include <algorithm>
#include <utility>

namespace oort::serve {
namespace {

/// While so much is unsent, events wait; then they are told together.
constexpr size_t kMostUnsent = 64 << 10;

openai::ApiError TooLate() {
  return {504, "the answer did not begin in time", "server_error", "", "deadline"};
}

/// When a request must be answered at the latest.
std::chrono::steady_clock::time_point LatestOf(const GenerateRequest& request,
                                               const Services& services, const Context& context) {
  const auto latest = std::min(context.arrived + services.most_time, context.deadline);
  return std::min(request.deadline.value_or(latest), latest);
}

/// Throws where an answer would come to nothing.
void CheckWorthwhile(const GenerateRequest& request, const Services& services,
                     const Context& context) {
  if (context.reply.gone()) {
    throw openai::RequestError({kAskerLeft, "nobody waits for the answer any more"});
  }
  if (services.draining) throw openai::RequestError(ShuttingDown());
  if (std::chrono::steady_clock::now() >= LatestOf(request, services, context)) {
    throw openai::RequestError(TooLate());
  }
  // As Submit would: but that comes when the pictures are read.
  if (services.loop->stats().waiting >= services.most_waiting) {
    throw openai::RequestError(QueueFull("too many requests wait: try again later"));
  }
}

}  // namespace

openai::GenerateCall ParseChat(const openai::Json& chat, const Services& services,
                               const Context& context, const openai::FieldNames& names) {
  return names.Within([&] {
    return openai::ParseChatRequest(
        chat, services.served, services.limits,
        [&](const GenerateRequest& request) { CheckWorthwhile(request, services, context); });
  });
}

GenerateJob::GenerateJob(Services& services, Context context, openai::GenerateCall call,
                         const MakeFormat& make_format)
    : services_(services),
      context_(std::move(context)),
      call_(std::move(call)),
      format_(make_format(call_)),
      results_(call_.requests.size()),
      first_sent_(call_.choices()),
      last_token_(call_.choices()) {}

void GenerateJob::Begin() {
  context_.reply.OnGone([weak = weak_from_this()] {
    if (const auto job = weak.lock()) job->Leave();
  });
  if (call_.stream) {
    context_.reply.OnQuiet(services_.quiet_time, [weak = weak_from_this()] {
      if (const auto job = weak.lock()) job->SendStream(job->format_->Wait());
    });
    context_.reply.OnDrained([weak = weak_from_this()] {
      const auto job = weak.lock();
      if (job && std::exchange(job->blocked_, false)) job->Pump();
    });
  }
  try {
    handles_.reserve(call_.requests.size());
    for (size_t i = 0; i < call_.requests.size(); ++i) Submit(i);
  } catch (const Error& error) {
    handles_.clear();  // those before it end
    const bool full = error.code() == ErrorCode::kLimit;
    if (full) ++services_.metrics.rejected_full;
    Fail(!full                ? context_.ErrorOf(std::current_exception())
         : services_.draining ? ShuttingDown()
                              : QueueFull(error.what()));
    return;
  }
  services_.metrics.choices.Observe(static_cast<double>(call_.n));
  bool gone = false;
  {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    gone = left_;
  }
  if (gone) return Leave();  // while they were submitted
  Push({.request = SIZE_MAX});
}

void GenerateJob::Submit(size_t index) {
  GenerateRequest request = call_.requests[index];
  request.caller = static_cast<uint64_t>(context_.key);
  // What one caller has asked must not show in how fast another is answered.
  request.cache_salt = std::to_string(context_.key) + '/' + request.cache_salt;
  request.deadline = LatestOf(request, services_, context_);
  if (call_.stream) {
    request.on_piece = [self = shared_from_this(), index](const GeneratedPiece& piece) {
      self->Push(
          {.request = index,
           .choice = index * static_cast<size_t>(self->call_.n) + static_cast<size_t>(piece.answer),
           .token = piece.token,
           .text = std::string(piece.text),
           .logprob = piece.logprob,
           .top = {piece.top.begin(), piece.top.end()},
           .time = Clock::now()});
      const std::lock_guard lock(self->mutex_);
      return !self->left_;
    };
    request.on_prompt = [self = shared_from_this(), index](auto logprobs, auto top) {
      self->Push({.request = index,
                  .prompt = true,
                  .prompt_logprobs = {logprobs.begin(), logprobs.end()},
                  .prompt_top = {top.begin(), top.end()}});
    };
  }
  handles_.push_back(services_.loop->Submit(std::move(request), [self = shared_from_this(), index] {
    self->Push({.request = index, .end = true});
  }));
}

void GenerateJob::Push(Event event) {
  {
    const std::lock_guard lock(mutex_);
    if (left_) return;
    if (event.request != SIZE_MAX) queue_.push_back(std::move(event));
    if (!begun_ || queue_.empty() || std::exchange(scheduled_, true)) return;
  }
  try {
    context_.reply.Post([self = shared_from_this()] { self->Pump(); });
  } catch (...) {
    // The next event asks for it again. Behind the last one nothing holds this job any more, and
    // its reply says that it was lost.
    const std::lock_guard lock(mutex_);
    scheduled_ = false;
  }
}

void GenerateJob::Pump() {
  while (true) {
    if (call_.stream && context_.reply.unsent() > kMostUnsent) {
      blocked_ = true;
      return;
    }
    std::vector<Event> events;
    {
      const std::lock_guard lock(mutex_);
      if (left_) return;
      events.swap(queue_);
      if (events.empty()) scheduled_ = false;
    }
    if (events.empty()) return;
    try {
      const std::string text = Write(events);
      if (call_.stream) SendStream(text);
      if (ended_ == results_.size()) return Finish();
    } catch (...) {
      ++services_.metrics.failed;
      return Fail(context_.ErrorOf(std::current_exception()));
    }
  }
}

std::string GenerateJob::Write(std::vector<Event>& events) {
  std::string text;
  for (size_t i = 0; i < events.size();) {
    if (events[i].end) {
      text += WriteEnd(events[i++].request);
    } else if (Event& event = events[i]; event.prompt) {
      format_->Prompt(event.request, std::move(event.prompt_logprobs), std::move(event.prompt_top));
      ++i;
    } else {
      text += WritePiece(events, i);
    }
  }
  return text;
}

/// One piece, or several of one answer that came together where nobody asks what each token was.
std::string GenerateJob::WritePiece(const std::vector<Event>& events, size_t& at) {
  const size_t choice = events[at].choice;
  const bool apart = call_.logprobs || call_.return_token_ids || call_.continuous_usage;
  std::string joined;
  GeneratedPiece piece;
  do {
    const Event& event = events[at++];
    if (event.token >= 0) {
      const Clock::time_point last = std::exchange(last_token_[choice], event.time);
      if (last != Clock::time_point()) {
        const std::chrono::duration<double> gap = event.time - last;
        services_.metrics.between_tokens.Observe(gap.count());
      }
    }
    joined += event.text;
    piece.token = event.token;
    piece.logprob = event.logprob;
    piece.top = event.top;
  } while (!apart && at < events.size() && !events[at].end && !events[at].prompt &&
           events[at].choice == choice);
  piece.text = joined;
  std::string text = Begin(choice);
  text += format_->Piece(static_cast<int64_t>(choice), piece);
  return text;
}

std::string GenerateJob::Begin(size_t choice) {
  if (first_sent_[choice]) return {};
  first_sent_[choice] = true;
  return format_->First(static_cast<int64_t>(choice));
}

std::string GenerateJob::WriteEnd(size_t index) {
  GenerateResult result = handles_.at(index).Wait();
  if (result.finish == FinishReason::kCancelled) throw openai::RequestError(ShuttingDown());
  if (result.finish == FinishReason::kDeadline && result.tokens.empty()) {
    throw openai::RequestError(TooLate());
  }
  const std::chrono::duration<double> time = Clock::now() - begin_;
  std::string text;
  size_t longest = 0;
  const auto n = static_cast<size_t>(call_.n);
  for (size_t i = 0; i < n; ++i) {
    const GeneratedAnswer& answer = openai::AnswerOf(result, i);
    services_.metrics.Add(call_.requests[index], answer, time.count());
    longest = std::max(longest, answer.tokens.size());
    if (!call_.stream) continue;
    const size_t choice = index * n + i;
    text += Begin(choice);
    text += format_->Last(static_cast<int64_t>(choice), answer);
  }
  services_.metrics.longest_answer.Observe(static_cast<double>(longest));
  results_[index] = std::move(result);
  ++ended_;
  return text;
}

void GenerateJob::SendStream(const std::string& text) {
  if (text.empty()) return;
  if (context_.reply.started()) return context_.reply.Write(text);
  std::vector<http::Field> fields = context_.fields;
  fields.push_back({"Cache-Control", "no-cache"});
  fields.push_back({"X-Accel-Buffering", "no"});  // nginx would wait for more
  context_.reply.Start(
      {.type = std::string(format_->stream_type()), .body = text, .fields = std::move(fields)});
}

void GenerateJob::Finish() {
  Note();
  const auto results = std::make_shared<std::vector<GenerateResult>>();
  for (std::optional<GenerateResult>& result : results_) results->push_back(std::move(*result));
  if (call_.stream) {
    SendStream(format_->End(*results));
    return context_.reply.End();
  }
  // Log-probabilities of many tokens take their time: not on the thread that serves all.
  const auto send = [self = shared_from_this(), results] {
    self->context_.Send(200, self->format_->Whole(*results));
  };
  if (!services_.workers.Push(send)) send();
}

void GenerateJob::Fail(const openai::ApiError& error) {
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    queue_.clear();
  }
  handles_.clear();
  context_.reply.Note("request=" + context_.id + " key=" + std::to_string(context_.key) +
                      " error=" + (error.code.empty() ? error.type : error.code));
  if (!context_.reply.started()) {
    context_.SendError(error, format_->ErrorBody(error));
  } else {
    context_.reply.Write(format_->Failure(error));
    context_.reply.End();
  }
}

void GenerateJob::Leave() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(left_, true)) ++services_.metrics.left;
    if (!begun_) return;  // the one who submits will see it
    queue_.clear();
  }
  handles_.clear();
}

void GenerateJob::Note() {
  int64_t prompt = 0;
  size_t generated = 0;
  for (const openai::PromptFacts& facts : call_.prompts) prompt += facts.tokens;
  double first = 0;
  for (const std::optional<GenerateResult>& result : results_) {
    generated += result->tokens.size();
    for (const GeneratedAnswer& other : result->others) generated += other.tokens.size();
    first = std::max(first, result->timings.first_token_seconds);
  }
  context_.reply.Note("request=" + context_.id + " key=" + std::to_string(context_.key) +
                      " prompt_tokens=" + std::to_string(prompt) +
                      " tokens=" + std::to_string(generated) +
                      " first_token_ms=" + std::to_string(static_cast<int64_t>(1e3 * first)));
}

}  // namespace oort::serve
