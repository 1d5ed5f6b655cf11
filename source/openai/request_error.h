// SPDX-License-Identifier: MIT
// What is wrong with a request, as OpenAI's API says it.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "oort/error.h"

namespace oort::openai {

struct ApiError {
  int status = 400;
  std::string message = {};
  std::string type = "invalid_request_error";
  std::string param = {};  ///< the field that is to blame, for example "messages[2].content"
  std::string code = {};   ///< for programs, for example "context_length_exceeded"
};

/// An Error that knows its status. Copying it never throws.
class RequestError : public Error {
 public:
  explicit RequestError(ApiError content);
  RequestError(std::string param, const std::string& message);
  const ApiError& content() const noexcept { return *content_; }

 private:
  std::shared_ptr<const ApiError> content_;
};

/// What a failure is to the caller: a RequestError as it is; what the request is to blame for as
/// 400; no memory as 503; the rest as 500, whose message names nothing of this machine.
ApiError ApiErrorOf(const std::exception_ptr& failure);

/// {"error": {…}}, with all four fields.
std::string ErrorBody(const ApiError& error);

}  // namespace oort::openai
