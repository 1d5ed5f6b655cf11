// SPDX-License-Identifier: MIT
// What the thread of a server and those who answer share about one request.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/message.h"

namespace oort::serve::http {

/// Work for the server's thread from others: one wake-up for all that came since the last.
class Mailbox {
 public:
  /// `wake` makes the thread call Run soon; it is called by any thread. Where it throws, the next
  /// Push wakes, and who calls Run now and then needs no wake-up.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}
  /// Throws only where the work itself finds no room.
  void Push(std::function<void()> work);
  void Run();
  /// Takes nothing from here on.
  void Close();

 private:
  void Wake();

  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> work_;
  bool awake_ = false;  ///< Run will look once more, or was asked for
  bool closed_ = false;
};

/// One request and its response. Who answers puts bytes in, framed for HTTP; the connection takes
/// them out. Thread contract: any number of threads.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  using Clock = std::chrono::steady_clock;

  Exchange(const Request& request, std::shared_ptr<Mailbox> mailbox, size_t most_unsent);

  // For who answers.
  void Send(Response response);
  void Start(Response head);
  void Write(std::string_view part);
  void End();
  void Cut();
  /// Nobody is left who could answer: 500, or the stream is cut.
  void Abandon();
  bool started() const;
  bool gone() const;
  size_t unsent() const;
  void Post(std::function<void()> work) { mailbox_->Push(std::move(work)); }
  void OnGone(std::function<void()> call);
  void OnQuiet(std::chrono::milliseconds time, std::function<void()> call);
  void OnDrained(std::function<void()> call);
  void Note(std::string text);

  // For the connection.
  /// Called on the server's thread when there is something to take.
  void SetWake(std::function<void()> wake);
  struct Taken {
    std::string bytes;
    bool ended = false, cut = false;
  };
  Taken Take();
  /// So many bytes of what was taken are sent.
  void Sent(size_t bytes);
  /// The peer has left: tells who answers, unless the response has ended.
  void Leave();
  /// Calls who waits for a pause, if there is one.
  void Tick(Clock::time_point now);
  /// The connection closes behind the response, and its head says so.
  void CloseBehind();

  bool keeps_alive() const;
  /// More is unsent than may be.
  bool overflowed() const;
  int status() const;
  size_t bytes() const;
  std::string note() const;
  const std::string method, path, peer;
  const Clock::time_point begin = Clock::now();

 private:
  void Wake();
  void AppendHead(const Response& response, const std::string* length);
  void AppendPart(std::string_view part);
  void Finish();
  void Drop();

  const std::shared_ptr<Mailbox> mailbox_;
  const size_t most_unsent_;
  const bool http_1_0_;
  mutable std::mutex mutex_;  // of all that follows
  bool keep_alive_;
  bool started_ = false, ended_ = false, cut_ = false, overflowed_ = false, gone_ = false;
  bool chunked_ = false;
  bool awake_ = false;  ///< the connection knows that there is something to take
  int status_ = 0;
  size_t bytes_ = 0, unsent_ = 0;
  std::string pending_, note_;
  std::function<void()> wake_, on_gone_, on_quiet_, on_drained_;
  std::chrono::milliseconds quiet_time_{0};
  Clock::time_point last_write_ = Clock::now();
};

}  // namespace oort::serve::http
