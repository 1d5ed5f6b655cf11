// SPDX-License-Identifier: MIT
// What recipes of networks and of language models share: JSON in which every key must be known, and
// names with stars in them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "text/json.h"

namespace oort {

/// '*' stands for any characters, '?' for one.
bool GlobMatches(std::string_view pattern, std::string_view text);

namespace json {

/// Throws kInvalidArgument.
[[noreturn]] void ThrowRecipe(const std::string& message);

/// The members of an object, each of which must be asked for.
class RecipeMembers {
 public:
  RecipeMembers(const OrderedJson& value, std::string what);

  const OrderedJson* Find(const char* key);  ///< null where missing or null
  std::string Text(const char* key);         ///< "" where missing
  std::optional<bool> Bool(const char* key);
  std::optional<double> Number(const char* key);
  std::optional<int64_t> Whole(const char* key, int64_t least, int64_t most);
  [[noreturn]] void Wrong(const char* key, const std::string& wanted) const;
  /// Throws and names every key that nobody asked for.
  void Finish() const;

 private:
  const OrderedJson& value_;
  std::string what_;
  std::set<std::string> known_;
};

/// Calls `parse(value, name)` for each member of the object `key`.
template <typename Map, typename Parse>
void ParseMap(RecipeMembers& members, const char* key, Map& map, const Parse& parse) {
  const OrderedJson* value = members.Find(key);
  if (value == nullptr) return;
  if (!value->is_object()) members.Wrong(key, "an object");
  for (const auto& [name, each] : value->items()) map[name] = parse(each, name);
}

}  // namespace json
}  // namespace oort
