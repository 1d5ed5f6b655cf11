// SPDX-License-Identifier: MIT
#include "serve/access_log.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include "openai/json_writer.h"

namespace oort::serve {
namespace {

/// "2026-11-17T21:04:27.123Z"
std::string Timestamp(std::chrono::system_clock::time_point now) {
  const auto all = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  const std::time_t seconds = static_cast<std::time_t>(all.count() / 1000);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts));
  std::string fraction = std::to_string(all.count() % 1000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return text + '.' + fraction + 'Z';
}

void AppendNote(openai::JsonWriter& out, std::string_view note) {
  while (!note.empty()) {
    const size_t end = std::min(note.find(' '), note.size());
    const std::string_view word = note.substr(0, end);
    note.remove_prefix(std::min(end + 1, note.size()));
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view value = word.substr(equals + 1);
    int64_t number = 0;
    const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    // A name that clients choose stays text, though it may be digits alone.
    const bool counts = error == std::errc() && last == value.data() + value.size();
    out.Key(word.substr(0, equals));
    if (counts && word.substr(0, equals) != "request") {
      out.Integer(number);
    } else {
      out.String(value);
    }
  }
}

}  // namespace

std::string AccessLine(const http::Served& served, std::chrono::system_clock::time_point now) {
  openai::JsonWriter out;
  out.Open('{').Key("time").String(Timestamp(now));
  out.Key("peer").String(served.peer).Key("method").String(served.method);
  out.Key("path").String(served.path).Key("status").Integer(served.status);
  out.Key("bytes").Integer(static_cast<int64_t>(served.bytes));
  out.Key("ms").Integer(static_cast<int64_t>(1e3 * served.seconds));
  out.Key("cut").Bool(served.cut);
  AppendNote(out, served.note);
  return out.Close('}').Take();
}

}  // namespace oort::serve
