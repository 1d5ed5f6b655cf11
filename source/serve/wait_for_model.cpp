// SPDX-License-Identifier: MIT
#include "serve/wait_for_model.h"

#include <algorithm>
#include <utility>

#include "core/problems.h"

namespace oort::serve {
namespace {

struct SharedWait {
  explicit SharedWait(ModelWait given) : wait(std::move(given)) {}

  ModelWait wait;
  std::atomic<bool> over = false;

  void Fail(const openai::ApiError& error) const {
    wait.context.SendError(error, wait.error_body(error));
  }
};

}  // namespace

openai::ApiError LoadError(const std::string& name, const std::exception_ptr& failure) {
  const std::string model = "the model " + Quote(name);
  ErrorCode code = ErrorCode::kInternal;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    code = error.code();
    if (code == ErrorCode::kCancelled) return ShuttingDown();
    if (code == ErrorCode::kLimit) {
      return {503, model + " cannot be loaded: " + error.what(), "server_error", "model",
              "model_too_large"};
    }
  } catch (const std::bad_alloc&) {
    code = ErrorCode::kOutOfMemory;
  } catch (...) {
  }
  return {code == ErrorCode::kOutOfMemory ? 503 : 500,
          model + " could not be loaded (" + std::string(Name(code)) +
              "): the log of the server says why",
          "server_error", "model", "model_load_failed"};
}

void WaitForModel(ModelPool& pool, Workers& workers, size_t model, std::string name,
                  std::chrono::milliseconds most, ModelWait wait) {
  const size_t bytes = wait.request.body.size();
  const auto shared = std::make_shared<SharedWait>(std::move(wait));
  const http::Reply& reply = shared->wait.context.reply;
  reply.OnQuiet(std::max(most, std::chrono::milliseconds(1)), [weak = std::weak_ptr(shared), name] {
    const auto late = weak.lock();
    if (!late || late->over.exchange(true)) return;
    late->Fail({504, "the model " + Quote(name) + " was not loaded in time", "server_error", "",
                "deadline"});
  });
  const auto wanted = [shared] { return !shared->over && !shared->wait.context.reply.gone(); };
  const auto then = [shared, name, &workers](ModelPool::Lease lease,
                                             const std::exception_ptr& failure) {
    if (shared->over.exchange(true)) return;
    if (failure) return shared->Fail(LoadError(name, failure));
    shared->wait.context.model = std::move(lease);
    const bool taken = workers.Push(
        [shared] { shared->wait.answer(std::move(shared->wait.request), shared->wait.context); });
    if (!taken) shared->Fail(QueueFull("too many requests wait to be read: try again later"));
  };
  try {
    pool.Ask(model, bytes, wanted, then);
  } catch (const Error& error) {
    shared->over = true;
    shared->Fail(error.code() == ErrorCode::kLimit ? QueueFull(error.what())
                                                   : LoadError(name, std::current_exception()));
  }
}

}  // namespace oort::serve
