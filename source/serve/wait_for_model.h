// SPDX-License-Identifier: MIT
// Requests that wait until their model is loaded.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "serve/context.h"
#include "serve/model_pool.h"
#include "serve/workers.h"

namespace oort::serve {

struct ModelWait {
  http::Request request;
  Context context;
  std::string (*error_body)(const openai::ApiError&);  ///< in the form of the asker's API
  /// On a worker, with the model in the context.
  std::function<void(http::Request, const Context&)> answer;
};

/// What a model that cannot be loaded is to who asked for it. Names nothing of this machine.
openai::ApiError LoadError(const std::string& name, const std::exception_ptr& failure);

/// Loads the model of that number, unless it is there, and answers. A request that waits longer
/// than `most` is told so; one whose asker has left is forgotten.
void WaitForModel(ModelPool& pool, Workers& workers, size_t model, std::string name,
                  std::chrono::milliseconds most, ModelWait wait);

}  // namespace oort::serve
