// SPDX-License-Identifier: MIT
#include "serve/api_keys.h"

#include <algorithm>
#include <fstream>

#include "oort/error.h"

namespace oort::serve {
namespace {

/// Of one length, so that comparing tells nothing of the real one. No key holds a zero byte.
std::string Filled(std::string_view word) {
  std::string filled(word.substr(0, ApiKeys::kMostBytes));
  filled.resize(ApiKeys::kMostBytes, '\0');
  return filled;
}

bool IsVisible(char c) { return c > 0x20 && c < 0x7F; }

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  if (keys.size() > kMostKeys) {
    throw Error(ErrorCode::kLimit,
                "there are more than " + std::to_string(kMostKeys) + " API keys");
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string& key = keys[i];
    if (key.empty() || key.size() >= kMostBytes || !std::ranges::all_of(key, IsVisible)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "API key " + std::to_string(i + 1) + " is empty, has " +
                      std::to_string(kMostBytes) +
                      " bytes or more, or holds a space or a character "
                      "that is no ASCII");
    }
    keys_.push_back(Filled(key));
    numbers_.push_back(++last_number_);
  }
}

ApiKeys ApiKeys::FromFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::kIo, "cannot read the API keys in " + path.string());
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && !line.starts_with('#')) keys.push_back(line);
    if (keys.size() > kMostKeys) break;
  }
  if (keys.empty()) {
    throw Error(ErrorCode::kInvalidArgument, path.string() + " holds no API key: one a line");
  }
  return ApiKeys(keys);
}

void ApiKeys::Replace(const ApiKeys& fresh) {
  std::vector<int> numbers;
  for (const std::string& key : fresh.keys_) {
    const auto found = std::ranges::find(keys_, key);
    const bool known = found != keys_.end();
    numbers.push_back(known ? numbers_[static_cast<size_t>(found - keys_.begin())]
                            : ++last_number_);
  }
  keys_ = fresh.keys_;
  numbers_ = std::move(numbers);
}

int ApiKeys::Find(std::string_view word) const {
  // Neither a wrong byte nor a right key ends the loops early: time tells nothing.
  const std::string filled = Filled(word);
  int found = 0;
  for (size_t k = 0; k < keys_.size(); ++k) {
    unsigned difference = word.size() > kMostBytes;
    for (size_t i = 0; i < kMostBytes; ++i) {
      difference |= static_cast<unsigned char>(filled[i]) ^ static_cast<unsigned char>(keys_[k][i]);
    }
    found = difference == 0 ? numbers_[k] : found;
  }
  return found;
}

}  // namespace oort::serve
