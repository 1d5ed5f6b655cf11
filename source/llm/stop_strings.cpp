// SPDX-License-Identifier: MIT
#include "llm/stop_strings.h"

#include <algorithm>
#include <utility>

#include "oort/error.h"
#include "text/utf8.h"

namespace oort {
namespace {

/// How much of `stop` the text ends with after one more byte (Knuth, Morris and Pratt).
size_t Advance(const std::string& stop, const std::vector<size_t>& shorter, size_t length,
               char byte) {
  while (length > 0 && (length == stop.size() || stop[length] != byte)) length = shorter[length];
  return stop[length] == byte ? length + 1 : 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) throw Error(ErrorCode::kInvalidArgument, "a stop string is empty");
    if (!text::IsValidUtf8(text))
      throw Error(ErrorCode::kInvalidArgument, "a stop string is not valid UTF-8");
    Stop stop;
    stop.shorter.assign(text.size() + 1, 0);
    for (size_t i = 1; i < text.size(); ++i) {
      stop.shorter[i + 1] = Advance(text, stop.shorter, stop.shorter[i], text[i]);
    }
    stop.text = std::move(text);
    stops_.push_back(std::move(stop));
  }
}

std::string StopStrings::Add(std::string_view piece) {
  if (stopped()) return {};
  for (const char byte : piece) {
    held_ += byte;
    const Stop* ended = nullptr;
    for (Stop& stop : stops_) {
      stop.length = Advance(stop.text, stop.shorter, stop.length, byte);
      const bool complete = stop.length == stop.text.size();
      if (complete && (!ended || stop.text.size() > ended->text.size())) ended = &stop;
    }
    if (!ended) continue;
    matched_ = ended->text;
    std::string shown = held_.substr(0, held_.size() - matched_.size());
    held_.clear();
    return shown;
  }
  size_t maybe = 0;
  for (const Stop& stop : stops_) maybe = std::max(maybe, stop.length);
  std::string shown = held_.substr(0, held_.size() - maybe);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopStrings::Finish() {
  for (Stop& stop : stops_) stop.length = 0;
  return std::exchange(held_, {});
}

}  // namespace oort
