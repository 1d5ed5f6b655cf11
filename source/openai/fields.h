// SPDX-License-Identifier: MIT
// The fields of a request's JSON: typed, in their ranges, and none passed over.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "openai/request_error.h"
#include "text/json.h"

namespace oort::openai {

using Json = json::OrderedJson;

/// "messages[2]"
std::string ItemPath(std::string_view list, size_t index);

/// Members of an object. One that is null counts as missing. Throws a RequestError that names the
/// field where one is of another type or out of range.
class Fields {
 public:
  /// `path` names the object in errors; empty for the body itself. The value must outlive this.
  Fields(const Json& value, std::string path = {});

  const Json* Find(std::string_view key);
  std::optional<int64_t> Integer(std::string_view key, int64_t least, int64_t most);
  std::optional<double> Number(std::string_view key, double least, double most);
  std::optional<bool> Bool(std::string_view key);
  std::optional<std::string_view> Text(std::string_view key);
  const Json* List(std::string_view key, size_t most);
  const Json* Object(std::string_view key);

  /// Fields that change no answer.
  void Ignore(std::initializer_list<std::string_view> keys);
  /// Throws where the field is there: what would change the answer is not passed over.
  void Refuse(std::string_view key, std::string_view why);
  /// Throws for a field that nobody asked for; one that is null asks for nothing.
  void CheckAllKnown() const;

  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view key) const;
  [[noreturn]] void Fail(std::string_view key, const std::string& message) const;

 private:
  const Json* value_;
  std::string path_;
  std::vector<std::string_view> known_;
};

}  // namespace oort::openai
