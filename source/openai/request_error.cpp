// SPDX-License-Identifier: MIT
#include "openai/request_error.h"

#include <new>

#include "openai/json_writer.h"

namespace oort::openai {

RequestError::RequestError(ApiError content)
    : Error(ErrorCode::kInvalidArgument, content.message),
      content_(std::make_shared<const ApiError>(std::move(content))) {}

RequestError::RequestError(std::string param, const std::string& message)
    : RequestError(ApiError{.message = message, .param = std::move(param)}) {}

ApiError ApiErrorOf(const std::exception_ptr& failure) {
  const ApiError unexpected{500, "the server failed at this request", "server_error", "", ""};
  try {
    std::rethrow_exception(failure);
  } catch (const RequestError& error) {
    return error.content();
  } catch (const Error& error) {
    switch (error.code()) {
      case ErrorCode::kInvalidArgument:
      case ErrorCode::kUnsupported:
      case ErrorCode::kLimit: return {.message = error.what()};
      case ErrorCode::kOutOfMemory:
        return {503, "there is not enough memory for this request", "server_error", "", ""};
      default: return unexpected;
    }
  } catch (const std::bad_alloc&) {
    return {503, "there is not enough memory for this request", "server_error", "", ""};
  } catch (...) {
    return unexpected;
  }
}

std::string ErrorBody(const ApiError& error) {
  JsonWriter out;
  out.Open('{').Key("error").Open('{');
  out.Key("message").String(error.message);
  out.Key("type").String(error.type);
  out.Key("param").StringOrNull(error.param);
  out.Key("code").StringOrNull(error.code);
  out.Close('}').Close('}');
  return out.Take();
}

}  // namespace oort::openai
