// SPDX-License-Identifier: MIT
// Collects what is wrong with a file, however much of it there is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oort/error.h"

namespace oort {

/// A name from a file for a message: in quotes, unprintable bytes as \xNN, long ones shortened.
std::string Quote(std::string_view text);
/// The same without the quotes.
std::string Shorten(std::string_view text);
/// Without a library's "[json.exception.parse_error.101] ", which tells people nothing.
std::string_view WithoutTag(std::string_view message);

class ProblemList {
 public:
  /// A file of a gigabyte can hold as many problems; a person reads the first few.
  static constexpr size_t kMaxListed = 100;

  void Add(Problem problem);
  void Add(ErrorCode code, std::string message, int line = 0);
  void Add(const std::vector<Problem>& problems);

  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  /// The first kMaxListed, then one that says how many more there are.
  std::vector<Problem> Listed() const;
  /// Throws an Error of all problems, if there are any.
  void Throw(std::string_view headline) const;

 private:
  std::vector<Problem> listed_;
  size_t count_ = 0;
};

}  // namespace oort
