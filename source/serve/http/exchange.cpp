// SPDX-License-Identifier: MIT
#include "serve/http/exchange.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "serve/http/server.h"

namespace oort::serve::http {
namespace {

constexpr int kMostRounds = 4;

}  // namespace

void Mailbox::Push(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  work_.push_back(std::move(work));
  if (!awake_) Wake();
}

/// Under the lock: once closed, nothing calls it.
void Mailbox::Wake() {
  try {
    awake_ = false;
    wake_();
    awake_ = true;
  } catch (...) {
    // A wake-up that nobody heard is still owed.
  }
}

void Mailbox::Run() {
  // A token's text makes work for the connection that sends it: the second round, without another
  // wake-up. Sockets must not wait for more than a few rounds.
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<std::function<void()>> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(work_);
      awake_ = !taken.empty();
    }
    if (taken.empty()) return;
    for (std::function<void()>& work : taken) {
      try {
        work();
      } catch (...) {
        // What fails for one request must not end the others. Its reply goes with its work, and so
        // the asker is told.
      }
      work = nullptr;
    }
  }
  const std::lock_guard lock(mutex_);
  awake_ = false;
  if (!work_.empty() && !closed_) Wake();
}

void Mailbox::Close() {
  std::vector<std::function<void()>> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(work_);
}

Exchange::Exchange(const Request& request, std::shared_ptr<Mailbox> mailbox, size_t most_unsent)
    : method(request.method),
      path(request.path),
      peer(request.peer),
      mailbox_(std::move(mailbox)),
      most_unsent_(most_unsent),
      http_1_0_(request.http_1_0),
      keep_alive_(request.keep_alive) {}

/// Under the lock. Tells the connection, by way of the mailbox.
void Exchange::Wake() {
  last_write_ = Clock::now();
  if (unsent_ > most_unsent_) overflowed_ = cut_ = true;
  if (awake_ && !overflowed_) return;
  try {
    mailbox_->Push([self = shared_from_this()] {
      std::function<void()> wake;
      {
        const std::lock_guard lock(self->mutex_);
        wake = self->wake_;
      }
      if (wake) wake();
    });
    awake_ = true;
  } catch (...) {
    // Without memory to be told so, the connection sees it at its next tick.
  }
}

void Exchange::AppendHead(const Response& response, const std::string* length) {
  const size_t before = pending_.size();
  status_ = response.status;
  started_ = true;
  pending_ += "HTTP/1.1 " + std::to_string(response.status) + ' ';
  pending_ += StatusText(response.status);
  pending_ += "\r\n";
  const auto field = [&](std::string_view name, std::string_view value) {
    ((((pending_ += name) += ": ") += value) += "\r\n");
  };
  if (!response.type.empty()) field("Content-Type", response.type);
  for (const Field& other : response.fields) field(other.name, other.value);
  if (length != nullptr) {
    field("Content-Length", *length);
  } else if (!http_1_0_) {
    field("Transfer-Encoding", "chunked");
    chunked_ = true;
  } else {
    keep_alive_ = false;  // the end of the connection is the end of the body
  }
  if (!keep_alive_) {
    field("Connection", "close");
  } else if (http_1_0_) {
    field("Connection", "keep-alive");
  }
  pending_ += "\r\n";
  unsent_ += pending_.size() - before;
}

void Exchange::AppendPart(std::string_view part) {
  if (part.empty() || method == "HEAD") return;
  const size_t before = pending_.size();
  if (chunked_) {
    std::array<char, 16> digits;
    const auto [end, error] =
        std::to_chars(digits.data(), digits.data() + digits.size(), part.size(), 16);
    pending_.append(digits.data(), end);
    pending_ += "\r\n";
  }
  pending_ += part;
  if (chunked_) pending_ += "\r\n";
  bytes_ += part.size();
  unsent_ += pending_.size() - before;
}

/// Under the lock. Callbacks go when the lock is gone, since what they hold may end here.
void Exchange::Finish() {
  if (chunked_ && method != "HEAD") {
    pending_ += "0\r\n\r\n";
    unsent_ += 5;
  }
  ended_ = true;
}

/// Lets go of what the callbacks hold.
void Exchange::Drop() {
  std::array<std::function<void()>, 3> dropped;
  const std::lock_guard lock(mutex_);
  dropped[0].swap(on_gone_);
  dropped[1].swap(on_quiet_);
  dropped[2].swap(on_drained_);
}

void Exchange::Send(Response response) {
  {
    const std::lock_guard lock(mutex_);
    if (started_ || gone_) return;
    const std::string length = std::to_string(response.body.size());
    const bool empty = response.status == 204 || response.status == 304;
    AppendHead(response, &length);
    if (!empty) AppendPart(response.body);
    Finish();
    // A whole response is in memory already: it is no backlog.
    unsent_ = std::min(unsent_, most_unsent_);
    Wake();
  }
  Drop();
}

void Exchange::Start(Response head) {
  const std::lock_guard lock(mutex_);
  if (started_ || gone_) return;
  AppendHead(head, nullptr);
  AppendPart(head.body);
  Wake();
}

void Exchange::Write(std::string_view part) {
  const std::lock_guard lock(mutex_);
  if (!started_ || ended_ || cut_ || gone_) return;
  AppendPart(part);
  Wake();
}

void Exchange::End() {
  {
    const std::lock_guard lock(mutex_);
    if (!started_ || ended_ || gone_) return;
    Finish();
    Wake();
  }
  Drop();
}

void Exchange::Cut() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || gone_) return;
    cut_ = true;
    Wake();
  }
  Drop();
}

void Exchange::Abandon() {
  bool late = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || gone_) return;
    late = started_;
  }
  if (late) {
    Cut();
  } else {
    Send({.status = 500, .type = "text/plain", .body = "the server lost this request\n"});
  }
}

bool Exchange::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

bool Exchange::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_ || cut_;
}

size_t Exchange::unsent() const {
  const std::lock_guard lock(mutex_);
  return unsent_;
}

void Exchange::OnGone(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!gone_ && !cut_) {
      on_gone_.swap(call);
      return;
    }
  }
  call();
}

void Exchange::OnQuiet(std::chrono::milliseconds time, std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (ended_ || gone_) return;
  quiet_time_ = time;
  last_write_ = Clock::now();  // what was quiet before is no pause: a body came, or a model
  on_quiet_.swap(call);
}

void Exchange::OnDrained(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (ended_ || gone_) return;
  on_drained_.swap(call);
}

void Exchange::Note(std::string text) {
  const std::lock_guard lock(mutex_);
  note_ = std::move(text);
}

void Exchange::SetWake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_.swap(wake);
}

Exchange::Taken Exchange::Take() {
  const std::lock_guard lock(mutex_);
  awake_ = false;
  Taken taken{{}, ended_, cut_};
  taken.bytes.swap(pending_);
  return taken;
}

void Exchange::Sent(size_t bytes) {
  std::function<void()> drained;
  {
    const std::lock_guard lock(mutex_);
    unsent_ -= std::min(unsent_, bytes);
    if (unsent_ == 0) drained = on_drained_;
  }
  if (drained) drained();
}

void Exchange::Leave() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) call = on_gone_;
    gone_ = true;
  }
  if (call) call();
  Drop();
}

void Exchange::Tick(Clock::time_point now) {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    if (!on_quiet_ || now - last_write_ < quiet_time_) return;
    last_write_ = now;
    call = on_quiet_;
  }
  call();
}

void Exchange::CloseBehind() {
  const std::lock_guard lock(mutex_);
  keep_alive_ = false;
}

bool Exchange::keeps_alive() const {
  const std::lock_guard lock(mutex_);
  return keep_alive_;
}

int Exchange::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool Exchange::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

size_t Exchange::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::string Exchange::note() const {
  const std::lock_guard lock(mutex_);
  return note_;
}

struct Reply::Handle {
  explicit Handle(std::shared_ptr<Exchange> given) : exchange(std::move(given)) {}
  ~Handle() {
    try {
      exchange->Abandon();
    } catch (...) {
      // Without memory to say so, the asker waits until he gives up.
    }
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  std::shared_ptr<Exchange> exchange;
};

Reply::Reply(std::shared_ptr<Exchange> exchange)
    : handle_(std::make_shared<Handle>(std::move(exchange))) {}

void Reply::Send(Response response) const { handle_->exchange->Send(std::move(response)); }
void Reply::Start(Response head) const { handle_->exchange->Start(std::move(head)); }
void Reply::Write(std::string_view part) const { handle_->exchange->Write(part); }
void Reply::End() const { handle_->exchange->End(); }
void Reply::Cut() const { handle_->exchange->Cut(); }
bool Reply::started() const { return handle_->exchange->started(); }
bool Reply::gone() const { return handle_->exchange->gone(); }
size_t Reply::unsent() const { return handle_->exchange->unsent(); }
void Reply::Post(std::function<void()> work) const { handle_->exchange->Post(std::move(work)); }
void Reply::OnGone(std::function<void()> call) const { handle_->exchange->OnGone(std::move(call)); }
void Reply::OnQuiet(std::chrono::milliseconds time, std::function<void()> call) const {
  handle_->exchange->OnQuiet(time, std::move(call));
}
void Reply::OnDrained(std::function<void()> call) const {
  handle_->exchange->OnDrained(std::move(call));
}
void Reply::Note(std::string text) const { handle_->exchange->Note(std::move(text)); }

}  // namespace oort::serve::http
