// SPDX-License-Identifier: MIT
// What goes wrong is an oort::Error: nothing in this library aborts, exits or prints.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace oort {

enum class ErrorCode {
  kInvalidArgument,  ///< the caller passed something that cannot be right
  kInvalidModel,     ///< a model file is damaged or contradicts itself
  kUnsupported,      ///< well formed, but this build cannot run it
  kNotFound,         ///< a file, operator, operand or name that does not exist
  kIo,               ///< the operating system refused a read or a write
  kOutOfMemory,      ///< memory was refused; the object that asked is unchanged
  kLimit,            ///< a limit that the caller set would be exceeded
  kCancelled,        ///< the caller's stop token was triggered
  kDevice,           ///< a device or its driver failed
  kInternal,         ///< a bug in Oort
};

/// The name of a code as scripts see it, for example "invalid_model".
std::string_view Name(ErrorCode code);

/// One thing that is wrong with a model.
struct Problem {
  ErrorCode code = ErrorCode::kInvalidModel;
  std::string message;        ///< one sentence, complete in itself
  std::string operator_name;  ///< empty where no operator is to blame
  std::string operator_type;
  int line = 0;  ///< line of the .param file, 0 where unknown
};

/// The only exception that leaves the library. Copying it never throws.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);
  Error(const Error&) noexcept;
  Error& operator=(const Error&) noexcept;
  ~Error() override;
  /// Joins several problems into one error; what() lists all of them, one a line.
  Error(std::string_view headline, std::vector<Problem> problems);
  /// Needs no memory, so it can be thrown when there is none.
  static Error OutOfMemory() noexcept;

  ErrorCode code() const noexcept;
  const char* what() const noexcept override;
  /// All problems found; empty unless the error came from checking a whole model.
  const std::vector<Problem>& problems() const noexcept;
  /// The same error with `prefix` before its message; used to add "operator 'x': ".
  Error WithContext(std::string_view prefix) const;

 private:
  struct Content;
  explicit Error(std::shared_ptr<const Content> content) noexcept;
  std::shared_ptr<const Content> content_;
};

}  // namespace oort
