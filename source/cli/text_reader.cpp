// SPDX-License-Identifier: MIT
#include "cli/text_reader.h"

#include "oort/error.h"
#include "text/json.h"
#include "text/utf8.h"

namespace oort::cli {
namespace {

constexpr size_t kMostTextBytes = size_t{4} << 20;
constexpr size_t kTextsAtATime = 1024;

/// A line of a .jsonl: a string, or an object with "text" or "input".
std::string TextOfJson(const std::string& line, const std::string& where) {
  const json::Json value = json::Parse(line, where);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    for (const char* key : {"text", "input"}) {
      const auto found = value.find(key);
      if (found != value.end() && found->is_string()) return found->get<std::string>();
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              where + ": expected a string, or an object with a string \"text\"");
}

}  // namespace

TextReader::TextReader(const std::string& path)
    : path_(path), lines_(path, kMostTextBytes), json_(path.ends_with(".jsonl")) {}

std::vector<std::string> TextReader::Next() {
  std::vector<std::string> texts;
  std::string line;
  bool cut = false;
  while (texts.size() < kTextsAtATime && lines_.Next(line, cut)) {
    const std::string where = path_ + ", line " + std::to_string(lines_.number());
    if (cut) throw Error(ErrorCode::kLimit, where + ": longer than 4 MiB");
    if (!text::IsValidUtf8(line)) {
      throw Error(ErrorCode::kInvalidArgument, where + ": no valid UTF-8");
    }
    texts.push_back(json_ ? TextOfJson(line, where) : line);
  }
  return texts;
}

}  // namespace oort::cli
