// SPDX-License-Identifier: MIT
#include "text/recipe_json.h"

#include <cmath>

#include "oort/error.h"

namespace oort {

bool GlobMatches(std::string_view pattern, std::string_view text) {
  size_t at = 0, star = std::string_view::npos, resume = 0, i = 0;
  while (i < text.size()) {
    if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[i]) &&
        pattern[at] != '*') {
      ++at;
      ++i;
    } else if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++resume;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

namespace json {

void ThrowRecipe(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, "recipe: " + message);
}

RecipeMembers::RecipeMembers(const OrderedJson& value, std::string what)
    : value_(value), what_(std::move(what)) {
  if (!value.is_object()) ThrowRecipe("expected " + what_ + " to be an object");
}

const OrderedJson* RecipeMembers::Find(const char* key) {
  known_.insert(key);
  const auto found = value_.find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

std::string RecipeMembers::Text(const char* key) {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) Wrong(key, "a text");
  return value->get<std::string>();
}

std::optional<bool> RecipeMembers::Bool(const char* key) {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_boolean()) Wrong(key, "true or false");
  return value->get<bool>();
}

std::optional<double> RecipeMembers::Number(const char* key) {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_number() || !std::isfinite(value->get<double>())) Wrong(key, "a number");
  return value->get<double>();
}

std::optional<int64_t> RecipeMembers::Whole(const char* key, int64_t least, int64_t most) {
  const std::optional<double> number = Number(key);
  if (!number) return {};
  if (*number != std::floor(*number) || *number < static_cast<double>(least) ||
      *number > static_cast<double>(most)) {
    Wrong(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<int64_t>(*number);
}

void RecipeMembers::Wrong(const char* key, const std::string& wanted) const {
  ThrowRecipe("expected '" + std::string(key) + "' of " + what_ + " to be " + wanted);
}

void RecipeMembers::Finish() const {
  std::string unknown;
  for (const auto& [key, value] : value_.items()) {
    if (known_.count(key) == 0) unknown += (unknown.empty() ? "'" : ", '") + key + "'";
  }
  if (!unknown.empty()) ThrowRecipe("unknown key " + unknown + " in " + what_);
}

}  // namespace json
}  // namespace oort
