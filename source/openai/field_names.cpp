// SPDX-License-Identifier: MIT
#include "openai/field_names.h"

#include <string_view>

#include "core/problems.h"

namespace oort::openai {

std::string FieldNames::Translated(const std::string& path) const {
  const std::pair<std::string, std::string>* longest = nullptr;
  for (const auto& name : names_) {
    const std::string& ours = name.first;
    const bool inside =
        path.starts_with(ours) &&
        (path.size() == ours.size() || path[ours.size()] == '.' || path[ours.size()] == '[');
    if (inside && (longest == nullptr || ours.size() > longest->first.size())) longest = &name;
  }
  return longest == nullptr ? path : longest->second + path.substr(longest->first.size());
}

ApiError FieldNames::Translated(ApiError error) const {
  const std::string theirs = Translated(error.param);
  if (theirs == error.param) return error;
  const std::string ours = Quote(error.param);
  if (const size_t at = error.message.find(ours); at != std::string::npos) {
    error.message.replace(at, ours.size(), Quote(theirs));
  }
  error.param = theirs;
  return error;
}

}  // namespace oort::openai
