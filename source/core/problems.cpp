// SPDX-License-Identifier: MIT
#include "core/problems.h"

namespace oort {

std::string_view WithoutTag(std::string_view message) {
  const size_t end = message.starts_with('[') ? message.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? message : message.substr(end + 2);
}

std::string Shorten(std::string_view text) {
  constexpr size_t kMaxLength = 120;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string printable;
  for (const char c : text.substr(0, kMaxLength)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      printable += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      printable += c;
    }
  }
  return text.size() > kMaxLength ? printable + "..." : printable;
}

std::string Quote(std::string_view text) { return "'" + Shorten(text) + "'"; }

void ProblemList::Add(Problem problem) {
  if (count_++ < kMaxListed) listed_.push_back(std::move(problem));
}

void ProblemList::Add(ErrorCode code, std::string message, int line) {
  Add({.code = code, .message = std::move(message), .line = line});
}

void ProblemList::Add(const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) Add(problem);
}

std::vector<Problem> ProblemList::Listed() const {
  std::vector<Problem> problems = listed_;
  if (count_ > listed_.size()) {
    problems.push_back({.code = listed_.front().code,
                        .message = "and " + std::to_string(count_ - listed_.size()) + " more"});
  }
  return problems;
}

void ProblemList::Throw(std::string_view headline) const {
  if (!empty()) throw Error(headline, Listed());
}

}  // namespace oort
