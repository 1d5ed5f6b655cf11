// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "c_api/border.h"
#include "c_api/model.h"
#include "c_api/options.h"
#include "c_api/result.h"
#include "oort/engine_loop.h"

namespace oort::c_api {

/// Lets callbacks of an engine through; its requests keep it, and may outlive the engine.
struct Gate {
  std::atomic<bool> closed = false;  ///< no callback begins any more
};

}  // namespace oort::c_api

struct oort_engine {
  std::shared_ptr<oort::c_api::Gate> gate = std::make_shared<oort::c_api::Gate>();
  std::shared_ptr<const oort::LanguageModel> model;
  std::shared_ptr<oort::c_api::PictureShelf> shelf;
  std::mutex mutex;  // of `grammars`
  std::unique_ptr<oort::GrammarCompiler> grammars;
  oort::EngineLoop loop;  // last: its thread ends first

  oort_engine(const oort_model& given, const oort::EngineLoopOptions& options)
      : model(given.model), shelf(given.shelf), loop(given.model, options) {}
};

namespace oort::c_api {
namespace {

/// Of the engine whose thread is in a callback right now, on that thread.
thread_local const Gate* t_inside = nullptr;

/// Throws where waiting would never end: on the thread that would have to do the work.
void CheckOutside(const Gate& gate) {
  if (t_inside == &gate) {
    throw Error(ErrorCode::kInvalidArgument,
                "a callback must not wait for its own engine: hand over what it got and return");
  }
}

class Inside {
 public:
  explicit Inside(const Gate& gate) : before_(std::exchange(t_inside, &gate)) {}
  ~Inside() { t_inside = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const Gate* before_;
};

}  // namespace

/// What the engine's thread tells about a request, to callbacks or to who reads.
class Stream {
 public:
  Stream(std::shared_ptr<const Gate> gate, oort_on_piece on_piece, oort_on_ready on_ready,
         void* user)
      : gate_(std::move(gate)), on_piece_(on_piece), on_ready_(on_ready), user_(user) {}

  const Gate& gate() const { return *gate_; }

  bool Piece(const GeneratedPiece& piece) {
    oort_piece given{std::string(piece.text),
                     piece.token,
                     piece.answer,
                     piece.logprob,
                     {piece.top.begin(), piece.top.end()}};
    if (on_piece_ != nullptr) {
      const std::lock_guard lock(calls_);
      if (IsClosed()) return false;
      const Inside inside(*gate_);
      return on_piece_(&given, user_) == 0;
    }
    {
      const std::lock_guard lock(mutex_);
      pieces_.push_back(std::move(given));
    }
    changed_.notify_all();
    return true;
  }

  void Ready() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    const std::lock_guard lock(calls_);
    if (on_ready_ == nullptr || IsClosed()) return;
    const Inside inside(*gate_);
    on_ready_(user_);
  }

  /// No callback comes after it: it waits for one that another thread is in.
  void Close() {
    const std::lock_guard lock(calls_);
    closed_ = true;
  }

  /// The next piece; none, with `ended`, behind the last, or when the time is over.
  std::optional<oort_piece> Read(double seconds, bool& ended) {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return !pieces_.empty() || ended_; };
    if (seconds < 0) {
      changed_.wait(lock, there);
    } else {
      changed_.wait_for(lock, std::chrono::duration<double>(std::min(seconds, kLongest)), there);
    }
    ended = pieces_.empty() && ended_;
    if (pieces_.empty()) return {};
    std::optional<oort_piece> piece(std::move(pieces_.front()));
    pieces_.pop_front();
    return piece;
  }

  static constexpr double kLongest = 1e9;  ///< seconds: more is as good as forever

 private:
  /// Under the lock of calls.
  bool IsClosed() const { return closed_ || gate_->closed; }

  std::shared_ptr<const Gate> gate_;
  oort_on_piece on_piece_;
  oort_on_ready on_ready_;
  void* user_;
  std::recursive_mutex calls_;  ///< held in callbacks, which may free their own request
  bool closed_ = false;         ///< of calls_

  std::mutex mutex_;  ///< of all that follows
  std::condition_variable changed_;
  std::deque<oort_piece> pieces_;
  bool ended_ = false;
};

namespace {

void CheckSeconds(double seconds) {
  if (std::isnan(seconds)) throw Error(ErrorCode::kInvalidArgument, "seconds is not a number");
}

std::shared_ptr<const TokenConstraint> ConstraintOf(oort_engine& engine,
                                                    const openai::ToolUse* tools,
                                                    const oort_options* options) {
  std::optional<GrammarSpec> spec = GrammarOf(options);
  std::vector<int32_t> prefix;
  if (tools != nullptr && tools->must_call()) {
    if (spec) {
      throw Error(ErrorCode::kInvalidArgument,
                  "an answer that must call a tool has no other form: tool_choice excludes it");
    }
    spec = MustCallGrammar(*engine.model, *tools);
    prefix = ToolCallPrefix(openai::CallStyleOf(*engine.model), engine.model->tokenizer());
  }
  if (!spec) return nullptr;
  const std::lock_guard lock(engine.mutex);
  if (engine.grammars == nullptr) {
    engine.grammars = std::make_unique<GrammarCompiler>(
        engine.model->tokenizer(), static_cast<size_t>(engine.model->info().vocabulary));
  }
  return engine.grammars->Compile(*spec, prefix);
}

}  // namespace
}  // namespace oort::c_api

struct oort_request {
  std::shared_ptr<oort::c_api::Stream> stream;
  oort::EngineLoop::Request request;
  oort::AnswerParserOptions parts;
  bool parallel_calls = true;
  bool readable = false;
  oort_piece current;  // what oort_request_read gave last
};

namespace oort::c_api {
namespace {

struct Callbacks {
  oort_on_piece on_piece = nullptr;
  oort_on_ready on_ready = nullptr;
  void* user = nullptr;
};

std::unique_ptr<oort_request> Submit(oort_engine& engine, EncodedChat prompt,
                                     const oort_options* options, const Callbacks& callbacks) {
  auto made = std::make_unique<oort_request>();
  GenerateRequest request = RequestOf(options);
  request.prompt = std::move(prompt.tokens);
  request.pictures = std::move(prompt.pictures);
  const openai::ToolUse* const tools = prompt.tools ? &*prompt.tools : nullptr;
  request.constraint = ConstraintOf(engine, tools, options);
  if (tools != nullptr) {
    made->parts = TakeApart(*engine.model, *tools, request);
    made->parallel_calls = tools->parallel;
  }
  made->readable = Settings(options).Flag("stream").value_or(false);
  if (made->readable && callbacks.on_piece != nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "pieces go to on_piece or, with option stream, to oort_request_read, not to both");
  }
  const auto stream =
      std::make_shared<Stream>(engine.gate, callbacks.on_piece, callbacks.on_ready, callbacks.user);
  made->stream = stream;
  if (made->readable || callbacks.on_piece != nullptr) {
    request.on_piece = [stream](const GeneratedPiece& piece) { return stream->Piece(piece); };
  }
  made->request = engine.loop.Submit(std::move(request), [stream] { stream->Ready(); });
  return made;
}

/// Waits for the result up to `seconds` (below 0: as long as it takes); null where it takes longer.
/// Behind a result, and behind the failure that is there instead, no callback comes any more: the
/// engine's thread tells that there is one before it calls on_ready.
std::unique_ptr<oort_result> Take(oort_request& request, double seconds) {
  auto made = std::make_unique<oort_result>();
  made->parts = request.parts;
  made->parallel_calls = request.parallel_calls;
  try {
    if (seconds < 0) {
      made->result = request.request.Wait();
    } else {
      const std::chrono::duration<double> most(std::min(seconds, Stream::kLongest));
      auto found =
          request.request.WaitFor(std::chrono::duration_cast<std::chrono::nanoseconds>(most));
      if (!found) return nullptr;
      made->result = std::move(*found);
    }
  } catch (...) {
    request.stream->Close();
    throw;
  }
  request.stream->Close();
  return made;
}

/// Submits a prompt and waits for the end of its answer.
oort_result* Generate(oort_engine& engine, EncodedChat prompt, const oort_options* options,
                      oort_on_piece on_piece, void* user) {
  CheckOutside(*engine.gate);
  const auto request = Submit(engine, std::move(prompt), options, {on_piece, nullptr, user});
  return Take(*request, -1).release();
}

EncodedChat TokensOf(const int32_t* prompt, size_t count) {
  if (count > 0) Need(prompt, "prompt");
  return {{prompt, prompt + count}, {}, {}};
}

EncodedChat ChatOf(const oort_engine& engine, const oort_chat& chat, const oort_options* options) {
  return EncodeChat(engine.model, *engine.shelf, chat, options);
}

}  // namespace
}  // namespace oort::c_api

using oort::c_api::AtBorder;
using oort::c_api::Need;

oort_code oort_engine_new(const oort_model* model, const oort_options* options,
                          oort_engine** engine, oort_error** error) {
  return AtBorder(error, [&] {
    Need(engine, "engine");
    *engine = nullptr;
    Need(model, "model");
    *engine = new oort_engine(*model, oort::c_api::EngineOptionsOf(options));
  });
}

oort_code oort_engine_generate(oort_engine* engine, const int32_t* prompt, size_t count,
                               const oort_options* options, oort_on_piece on_piece, void* user,
                               oort_result** result, oort_error** error) {
  return AtBorder(error, [&] {
    Need(result, "result");
    *result = nullptr;
    Need(engine, "engine");
    *result = oort::c_api::Generate(*engine, oort::c_api::TokensOf(prompt, count), options,
                                    on_piece, user);
  });
}

oort_code oort_engine_complete(oort_engine* engine, const char* text, size_t length,
                               const oort_options* options, oort_on_piece on_piece, void* user,
                               oort_result** result, oort_error** error) {
  return AtBorder(error, [&] {
    Need(result, "result");
    *result = nullptr;
    Need(engine, "engine");
    if (length > 0) Need(text, "text");
    const std::string_view view(text == nullptr ? "" : text, length);
    *result = oort::c_api::Generate(
        *engine, {oort::c_api::EncodeText(*engine->model, view, options), {}, {}}, options,
        on_piece, user);
  });
}

oort_code oort_engine_chat(oort_engine* engine, const oort_chat* chat, const oort_options* options,
                           oort_on_piece on_piece, void* user, oort_result** result,
                           oort_error** error) {
  return AtBorder(error, [&] {
    Need(result, "result");
    *result = nullptr;
    Need(engine, "engine");
    Need(chat, "chat");
    oort::c_api::CheckOutside(*engine->gate);
    *result = oort::c_api::Generate(*engine, oort::c_api::ChatOf(*engine, *chat, options), options,
                                    on_piece, user);
  });
}

oort_code oort_engine_number(const oort_engine* engine, const char* name, int64_t* value,
                             oort_error** error) {
  return AtBorder(error, [&] {
    Need(value, "value");
    *value = 0;
    Need(engine, "engine");
    Need(name, "name");
    const oort::EngineStats stats = engine->loop.stats();
    const std::pair<const char*, int64_t> numbers[] = {{"waiting", stats.waiting},
                                                       {"waiting_tokens", stats.waiting_tokens},
                                                       {"running", stats.running},
                                                       {"blocks", stats.blocks},
                                                       {"used_blocks", stats.used_blocks},
                                                       {"used_tokens", stats.used_tokens},
                                                       {"cached_blocks", stats.cached_blocks},
                                                       {"steps", stats.steps},
                                                       {"prompt_tokens", stats.prompt_tokens},
                                                       {"reused_tokens", stats.reused_tokens},
                                                       {"generated_tokens", stats.generated_tokens},
                                                       {"preemptions", stats.preemptions},
                                                       {"draft_steps", stats.draft.steps},
                                                       {"drafted_tokens", stats.draft.drafted},
                                                       {"accepted_tokens", stats.draft.accepted}};
    *value = oort::c_api::NumberOf<int64_t>(numbers, name);
  });
}

oort_code oort_engine_drain(oort_engine* engine, double seconds, int* all, oort_error** error) {
  return AtBorder(error, [&] {
    if (all != nullptr) *all = 0;
    Need(engine, "engine");
    oort::c_api::CheckSeconds(seconds);
    oort::c_api::CheckOutside(*engine->gate);
    const std::chrono::duration<double> most(
        std::clamp(seconds, 0.0, oort::c_api::Stream::kLongest));
    const bool own = engine->loop.Drain(std::chrono::duration_cast<std::chrono::nanoseconds>(most));
    if (all != nullptr) *all = own ? 1 : 0;
  });
}

void oort_engine_free(oort_engine* engine) {
  if (engine == nullptr || oort::c_api::t_inside != engine->gate.get()) {
    delete engine;
    return;
  }
  // In a callback the engine's own thread would wait for itself: another one does. Since callbacks
  // come on this thread alone, none begins once the gate is closed.
  engine->gate->closed = true;
  try {
    std::thread([engine] { delete engine; }).detach();
  } catch (...) {
    // Without a thread it stays until the process ends.
  }
}

oort_code oort_engine_submit(oort_engine* engine, const int32_t* prompt, size_t count,
                             const oort_options* options, oort_on_piece on_piece,
                             oort_on_ready on_ready, void* user, oort_request** request,
                             oort_error** error) {
  return AtBorder(error, [&] {
    Need(request, "request");
    *request = nullptr;
    Need(engine, "engine");
    *request = oort::c_api::Submit(*engine, oort::c_api::TokensOf(prompt, count), options,
                                   {on_piece, on_ready, user})
                   .release();
  });
}

oort_code oort_engine_submit_chat(oort_engine* engine, const oort_chat* chat,
                                  const oort_options* options, oort_on_piece on_piece,
                                  oort_on_ready on_ready, void* user, oort_request** request,
                                  oort_error** error) {
  return AtBorder(error, [&] {
    Need(request, "request");
    *request = nullptr;
    Need(engine, "engine");
    Need(chat, "chat");
    *request = oort::c_api::Submit(*engine, oort::c_api::ChatOf(*engine, *chat, options), options,
                                   {on_piece, on_ready, user})
                   .release();
  });
}

oort_code oort_request_read(oort_request* request, double seconds, const oort_piece** piece,
                            int* ended, oort_error** error) {
  return AtBorder(error, [&] {
    if (ended != nullptr) *ended = 0;
    Need(piece, "piece");
    *piece = nullptr;
    Need(request, "request");
    oort::c_api::CheckSeconds(seconds);
    if (!request->readable) {
      throw oort::Error(oort::ErrorCode::kInvalidArgument,
                        "pieces are kept for oort_request_read with option stream only");
    }
    oort::c_api::CheckOutside(request->stream->gate());
    bool end = false;
    std::optional<oort_piece> next = request->stream->Read(seconds, end);
    if (ended != nullptr) *ended = end ? 1 : 0;
    if (!next) return;
    request->current = std::move(*next);
    *piece = &request->current;
  });
}

oort_code oort_request_wait(oort_request* request, double seconds, oort_result** result,
                            oort_error** error) {
  return AtBorder(error, [&] {
    Need(result, "result");
    *result = nullptr;
    Need(request, "request");
    oort::c_api::CheckSeconds(seconds);
    if (!request->request.ready()) oort::c_api::CheckOutside(request->stream->gate());
    *result = oort::c_api::Take(*request, seconds).release();
  });
}

void oort_request_cancel(oort_request* request) {
  if (request != nullptr) request->request.Cancel();
}

void oort_request_free(oort_request* request) {
  if (request == nullptr) return;
  request->request.Cancel();
  request->stream->Close();
  delete request;
}
