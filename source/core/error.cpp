// SPDX-License-Identifier: MIT
#include "oort/error.h"

namespace oort {

std::string_view Name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kInvalidModel: return "invalid_model";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kLimit: return "limit";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kDevice: return "device";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

struct Error::Content {
  ErrorCode code;
  std::string message;
  std::vector<Problem> problems;
};

namespace {

std::string Join(std::string_view headline, const std::vector<Problem>& problems) {
  std::string text(headline);
  if (problems.size() == 1) return text + ": " + problems[0].message;
  text += ": " + std::to_string(problems.size()) + " problems";
  for (const Problem& problem : problems) text += "\n  " + problem.message;
  return text;
}

}  // namespace

Error::Error(ErrorCode code, std::string message)
    : content_(std::make_shared<const Content>(Content{code, std::move(message), {}})) {}

Error::Error(std::string_view headline, std::vector<Problem> problems) {
  const ErrorCode code = problems.empty() ? ErrorCode::kInternal : problems.front().code;
  std::string message = Join(headline, problems);
  content_ =
      std::make_shared<const Content>(Content{code, std::move(message), std::move(problems)});
}

Error::Error(std::shared_ptr<const Content> content) noexcept : content_(std::move(content)) {}

Error::Error(const Error&) noexcept = default;
Error& Error::operator=(const Error&) noexcept = default;
Error::~Error() = default;

Error Error::OutOfMemory() noexcept {
  // A static object without a control block to allocate: this must work when nothing is left.
  static const Content content{ErrorCode::kOutOfMemory, "out of memory", {}};
  return Error(std::shared_ptr<const Content>(std::shared_ptr<const Content>(), &content));
}

ErrorCode Error::code() const noexcept { return content_->code; }
const char* Error::what() const noexcept { return content_->message.c_str(); }
const std::vector<Problem>& Error::problems() const noexcept { return content_->problems; }

Error Error::WithContext(std::string_view prefix) const {
  if (content_->code == ErrorCode::kOutOfMemory) return *this;  // no memory to say more
  if (content_->code == ErrorCode::kCancelled)
    return *this;  // wherever it was, nothing is wrong there
  return Error(std::make_shared<const Content>(
      Content{content_->code, std::string(prefix) + content_->message, content_->problems}));
}

}  // namespace oort
