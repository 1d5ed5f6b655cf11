// SPDX-License-Identifier: MIT
// Reads the JSON object of one call byte by byte.
#pragma once

#include <string>
#include <string_view>

namespace oort::grammar {

class CallScanner {
 public:
  /// Reads up to the end of the object, and returns how many bytes that took. What is found out is
  /// in `name`, `id` and `arguments`.
  size_t Read(std::string_view text);
  bool complete() const { return state_ == State::kComplete; }
  bool broken() const { return state_ == State::kBroken; }
  /// Whether the name has been read, with which a call begins.
  bool named() const { return named_; }

  std::string name, id;
  std::string arguments;  ///< as far as it was read; who takes it away clears it

 private:
  enum class State : unsigned char {
    kBegin,
    kBeforeKey,
    kKey,
    kBeforeColon,
    kBeforeValue,
    kValue,
    kBehindValue,
    kComplete,
    kBroken,
  };
  void ReadByte(char byte);
  void ReadValue(char byte);
  void EndValue();
  bool is_arguments() const { return key_ == "arguments" || key_ == "parameters"; }

  State state_ = State::kBegin;
  std::string key_, value_;
  int depth_ = 0;  ///< of what is open in the value
  bool in_string_ = false, escaped_ = false, streams_ = false, named_ = false;
};

}  // namespace oort::grammar
