// SPDX-License-Identifier: MIT
#include "stream.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "oort/error.h"

namespace oort::python {
namespace {

using Seconds = std::chrono::duration<double>;

/// So long a thread waits before it looks for signals.
constexpr Seconds kLook{0.05};
/// Pieces that follow each other faster than this are handed over together: a reader that wakes for
/// each takes a processor from the engine every time, and nobody reads so fast. It is woken between
/// steps, by the first piece behind that time; if none comes, it looks by itself.
constexpr Seconds kTogether{0.005}, kLonger{0.01};

nb::list ListOf(const std::vector<TokenLogprob>& top) {
  nb::list list;
  for (const TokenLogprob& entry : top) list.append(nb::make_tuple(entry.token, entry.logprob));
  return list;
}

nb::list ListOf(const std::vector<std::vector<TokenLogprob>>& tops) {
  nb::list list;
  for (const std::vector<TokenLogprob>& top : tops) list.append(ListOf(top));
  return list;
}

/// Content, reasoning, and a list of (id, name, arguments).
nb::tuple MessageOf(const Stream::Wishes& wishes, const GeneratedAnswer& answer) {
  const openai::AnswerMessage message =
      openai::ReadMessage(openai::MessageReader(*wishes.parts, wishes.parallel_calls), answer.text);
  nb::list calls;
  for (const openai::ToolCall& call : message.calls) {
    calls.append(nb::make_tuple(call.id, call.name, call.arguments));
  }
  return nb::make_tuple(message.content, message.reasoning, calls);
}

nb::dict DictOf(const GeneratedAnswer& answer, const Stream::Wishes& wishes) {
  nb::dict dict;
  if (wishes.parts) dict["message"] = MessageOf(wishes, answer);
  dict["index"] = answer.index;
  dict["text"] = answer.text;
  dict["tokens"] = answer.tokens;
  dict["logprobs"] = answer.logprobs;
  dict["top_logprobs"] = ListOf(answer.top);
  dict["score"] = answer.score;
  dict["finish"] = std::string(Name(answer.finish));
  dict["stop"] = answer.stop;
  dict["prompt_seconds"] = answer.timings.prompt_seconds;
  dict["generate_seconds"] = answer.timings.generate_seconds;
  dict["first_token_seconds"] = answer.timings.first_token_seconds;
  return dict;
}

nb::dict DictOf(const GenerateResult& result, const Stream::Wishes& wishes) {
  nb::dict dict = DictOf(static_cast<const GeneratedAnswer&>(result), wishes);
  nb::list others;
  for (const GeneratedAnswer& other : result.others) others.append(DictOf(other, wishes));
  dict["others"] = others;
  dict["reused_tokens"] = result.reused_tokens;
  dict["prompt_logprobs"] = result.prompt_logprobs;
  dict["prompt_top_logprobs"] = ListOf(result.prompt_top);
  return dict;
}

}  // namespace

EngineLoop::Request EngineThread::Submit(GenerateRequest request, std::function<void()> on_ready) {
  const std::lock_guard lock(mutex_);
  if (!loop_) throw Error(ErrorCode::kCancelled, "the interpreter is ending");
  return loop_->Submit(std::move(request), std::move(on_ready));
}

EngineStats EngineThread::stats() const {
  const std::lock_guard lock(mutex_);
  return loop_ ? loop_->stats() : EngineStats();
}

void EngineThread::End() {
  if (IsForked()) {  // waiting for its thread would never end
    static_cast<void>(loop_.release());
    return;
  }
  const std::lock_guard lock(mutex_);
  loop_.reset();
}

void LetGo(std::shared_ptr<EngineThread>& engine) {
  if (engine.use_count() != 1) {
    engine.reset();
    return;
  }
  const Unlocked unlocked;
  engine.reset();
}

Stream::Queue::~Queue() {
  if (descriptor >= 0) close(descriptor);
}

void Stream::Queue::Push(Piece piece) {
  const Clock::time_point now = Clock::now();
  gap = now - std::exchange(last, now);
  pieces.push_back(std::move(piece));
  if (!quiet || now - woken >= kTogether) Wake();
}

bool Stream::Queue::Take(std::deque<Piece>& taken) {
  if (!pieces.empty()) flows = gap < kTogether;
  taken.swap(pieces);
  quiet = signalled = false;
  return !taken.empty() || ended;
}

bool Stream::Queue::BeQuiet() {
  quiet = std::exchange(flows, false) && pieces.empty() && !ended;
  return quiet;
}

void Stream::Queue::Wake() {
  quiet = false;
  woken = last;
  changed.notify_all();
  if (descriptor < 0 || std::exchange(signalled, true)) return;
  const uint64_t one = 1;
  // It fails only where it has been woken 2^64 times.
  [[maybe_unused]] const ssize_t written = write(descriptor, &one, sizeof one);
}

Stream::Stream(std::shared_ptr<EngineThread> engine, GenerateRequest request, Wishes wishes)
    : queue_(std::make_shared<Queue>()),
      logprobs_(request.sampling.top_logprobs >= 0),
      wishes_(std::move(wishes)),
      engine_(std::move(engine)) {
  if (wishes_.pieces) {
    request.on_piece = [queue = queue_](const GeneratedPiece& piece) {
      const std::lock_guard lock(queue->mutex);
      queue->Push({piece.answer,
                   piece.token,
                   std::string(piece.text),
                   piece.logprob,
                   {piece.top.begin(), piece.top.end()}});
      return true;
    };
  }
  const auto on_ready = [queue = queue_] {
    const std::lock_guard lock(queue->mutex);
    queue->ended = true;
    queue->Wake();
  };
  const Unlocked unlocked;  // the engine may be ending, which takes a step
  request_ = engine_->Submit(std::move(request), on_ready);
}

Stream::~Stream() {
  if (engine_->IsForked()) {
    // Its locks may be held by a thread that is gone.
    static_cast<void>(new EngineLoop::Request(std::move(request_)));
  } else {
    request_.Cancel();
  }
  LetGo(engine_);
}

template <typename Ready>
bool Stream::WaitUntil(double seconds, const Ready& ready) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    bool done = false;
    const double left = seconds - Seconds(Clock::now() - start).count();
    const Seconds most = seconds < 0 ? kLook : std::clamp(Seconds(left), Seconds(0), kLook);
    {
      const Unlocked unlocked;
      std::unique_lock lock(queue_->mutex);
      if (queue_->BeQuiet()) {
        queue_->changed.wait_for(lock, std::min(most, kLonger), [&] { return !queue_->quiet; });
        queue_->quiet = false;
      }
      done = queue_->changed.wait_for(lock, most, [&] { return ready(*queue_); });
    }
    if (done) return true;
    if (PyErr_CheckSignals() != 0) {
      const nb::python_error interrupt;
      Cancel();
      throw interrupt;
    }
    if (seconds >= 0 && Seconds(Clock::now() - start).count() >= seconds) return false;
  }
}

nb::object Stream::Take(double seconds) {
  std::deque<Piece> taken;
  bool ended = false;
  const auto take = [&](Queue& queue) {
    ended = queue.ended;
    return queue.Take(taken);
  };
  bool ready = false;
  {
    const std::lock_guard lock(queue_->mutex);
    ready = take(*queue_);
  }
  if (!ready && seconds != 0) WaitUntil(seconds, take);
  nb::list list;
  if (taken.empty() && ended) {
    for (auto& [answer, reader] : std::exchange(readers_, {})) {
      const AnswerDelta delta = reader.Finish();
      if (delta.content.empty() && delta.reasoning.empty()) continue;
      list.append(
          nb::make_tuple("", -1, nb::none(), nb::none(), answer, delta.content, delta.reasoning));
    }
    return list.size() == 0 ? nb::none() : nb::object(list);
  }
  for (const Piece& piece : taken) list.append(TupleOf(piece));
  return list;
}

nb::tuple Stream::TupleOf(const Piece& piece) {
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      piece.text.data(), static_cast<Py_ssize_t>(piece.text.size()), "replace"));
  nb::object logprob = nb::none();
  nb::object top = nb::none();
  if (logprobs_) {
    logprob = nb::float_(piece.logprob);
    top = ListOf(piece.top);
  }
  if (!wishes_.splits()) {
    return nb::make_tuple(text, piece.token, logprob, top, piece.answer);
  }
  openai::MessageReader& reader =
      readers_.try_emplace(piece.answer, *wishes_.parts, wishes_.parallel_calls).first->second;
  const AnswerDelta delta = reader.Push(piece.text);
  return nb::make_tuple(text, piece.token, logprob, top, piece.answer, delta.content,
                        delta.reasoning);
}

nb::dict Stream::Result() {
  WaitUntil(-1, [](const Queue& queue) { return queue.ended; });
  if (!result_) result_ = request_.Wait();
  return DictOf(*result_, wishes_);
}

void Stream::Cancel() { request_.Cancel(); }

int Stream::Descriptor() {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->descriptor < 0) {
    queue_->descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (queue_->descriptor < 0) {
      throw Error(ErrorCode::kIo, "no descriptor is left to wait for an answer with");
    }
    if (!queue_->pieces.empty() || queue_->ended) queue_->Wake();
  }
  return queue_->descriptor;
}

double Stream::Rest() {
  const std::lock_guard lock(queue_->mutex);
  return queue_->BeQuiet() ? kLonger.count() : 0;
}

void BindStream(nb::module_& module) {
  nb::class_<Stream>(module, "Stream")
      .def("take", &Stream::Take, nb::arg("seconds"))
      .def("result", &Stream::Result)
      .def("cancel", &Stream::Cancel)
      .def("descriptor", &Stream::Descriptor)
      .def("rest", &Stream::Rest);
}

}  // namespace oort::python
