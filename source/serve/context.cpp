// SPDX-License-Identifier: MIT
#include "serve/context.h"

namespace oort::serve {

openai::Json Context::TakeBody(const http::Request& request, const openai::Limits& limits) const {
  return json ? std::move(*json) : openai::ParseBody(request.body, limits);
}

void Context::Send(int status, std::string body, std::string type) const {
  reply.Send(
      {.status = status, .type = std::move(type), .body = std::move(body), .fields = fields});
}

void Context::SendError(const openai::ApiError& error, std::string body) const {
  reply.Send(ErrorResponse(error, std::move(body), fields));
}

void Context::SendError(const openai::ApiError& error) const {
  SendError(error, openai::ErrorBody(error));
}

openai::ApiError Context::ErrorOf(const std::exception_ptr& failure) const {
  return failures != nullptr ? failures->ErrorOf(failure, id) : openai::ApiErrorOf(failure);
}

http::Response ErrorResponse(const openai::ApiError& error, std::string body,
                             std::vector<http::Field> fields) {
  http::Response response{
      .status = error.status, .body = std::move(body), .fields = std::move(fields)};
  if (error.status == 401) response.fields.push_back({"WWW-Authenticate", "Bearer"});
  if (error.status == 429 || error.status == 503) response.fields.push_back({"Retry-After", "1"});
  // What the request itself is to blame for would fail again.
  if (error.status == 500) response.fields.push_back({"X-Should-Retry", "false"});
  return response;
}

openai::ApiError QueueFull(const std::string& message) {
  return {429, message, "rate_limit_error", "", "queue_full"};
}

openai::ApiError ShuttingDown() {
  return {503, "the server is about to end", "server_error", "", "shutting_down"};
}

}  // namespace oort::serve
