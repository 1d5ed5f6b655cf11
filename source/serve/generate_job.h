// SPDX-License-Identifier: MIT
// One request for text on its way through the engine.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "openai/field_names.h"
#include "serve/answer_format.h"
#include "serve/context.h"

namespace oort::serve {

/// A chat, whose fields have other `names` where it was translated from another API. Its pictures
/// are read while somebody waits for the answer and the engine has room for it.
openai::GenerateCall ParseChat(const openai::Json& chat, const Services& services,
                               const Context& context, const openai::FieldNames& names = {});

/// Hands the requests of a call to the engine, and what comes out to the asker. The engine's thread
/// only queues; the text is written on the server's thread. Owned by its callbacks, it goes when
/// the last request has ended.
class GenerateJob : public std::enable_shared_from_this<GenerateJob> {
 public:
  using MakeFormat = std::function<std::unique_ptr<AnswerFormat>(const openai::GenerateCall&)>;

  GenerateJob(Services& services, Context context, openai::GenerateCall call,
              const MakeFormat& make_format);

  /// Submits everything; once.
  void Begin();

 private:
  using Clock = std::chrono::steady_clock;
  /// What the engine said. `end`: the request's result is there. `prompt`: what is known of the
  /// prompt's tokens.
  struct Event {
    size_t request = 0;
    size_t choice = 0;  ///< of the call
    bool end = false;
    bool prompt = false;
    int32_t token = -1;
    std::string text;
    float logprob = 0;
    std::vector<TokenLogprob> top;
    Clock::time_point time;
    std::vector<float> prompt_logprobs;
    std::vector<std::vector<TokenLogprob>> prompt_top;
  };

  void Submit(size_t index);
  void Push(Event event);
  /// On the server's thread: deals with what was queued.
  void Pump();
  std::string Write(std::vector<Event>& events);
  std::string WritePiece(const std::vector<Event>& events, size_t& at);
  std::string WriteEnd(size_t index);
  std::string Begin(size_t choice);
  void SendStream(const std::string& text);
  void Finish();
  void Fail(const openai::ApiError& error);
  /// Nobody waits for the answer any more.
  void Leave();
  void Note();

  Services& services_;
  const Context context_;
  const openai::GenerateCall call_;
  const std::unique_ptr<AnswerFormat> format_;
  const Clock::time_point begin_ = context_.arrived;
  std::vector<EngineLoop::Request> handles_;

  std::mutex mutex_;  // of what follows
  std::vector<Event> queue_;
  bool begun_ = false;      ///< all are submitted
  bool scheduled_ = false;  ///< Pump will run, or waits until the asker has taken what he has
  bool left_ = false;

  // Of the server's thread alone.
  std::vector<std::optional<GenerateResult>> results_;
  std::vector<bool> first_sent_;               ///< of each choice
  std::vector<Clock::time_point> last_token_;  ///< of each choice
  size_t ended_ = 0;
  bool blocked_ = false;  ///< the asker reads slowly
};

}  // namespace oort::serve
