// SPDX-License-Identifier: MIT
// JSON of untrusted files: nothing but an oort::Error is thrown, and depth has a limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_value.h"

namespace oort::json {

/// Throws kInvalidModel for what is no JSON, is nested too deeply or has a key twice; `what` names
/// it in messages. Infinity and NaN, which Python writes, are null.
Json Parse(std::string_view text, const std::string& what);
/// So deep may lists and objects be nested.
inline constexpr size_t kDeepest = 64;
/// The same for what a caller sent: throws kInvalidArgument, also for an object of more than 4096
/// members, among which this type searches one by one.
OrderedJson ParseOrdered(std::string_view text, const std::string& what, size_t deepest = kDeepest);

/// A whole number from 0 to `most`; `what` names it in messages.
int64_t IntegerOf(const Json& value, const std::string& what, int64_t most);

/// Members of an object by their type. A member that is missing or null gives nothing, and is an
/// error where it is required; one of another type throws kInvalidModel.
class Object {
 public:
  /// Throws unless the value is an object, which must outlive this view.
  Object(const Json& value, std::string what);

  const Json* Find(std::string_view key) const;  ///< null where missing or null
  bool IsNull(std::string_view key) const;       ///< it is there, and null
  std::optional<int64_t> Integer(std::string_view key) const;
  std::optional<double> Number(std::string_view key) const;
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<std::string_view> Text(std::string_view key) const;
  /// A list of numbers; empty where missing.
  std::vector<float> Floats(std::string_view key) const;
  std::optional<Object> Member(std::string_view key) const;
  const Json& Require(std::string_view key) const;
  int64_t RequireInteger(std::string_view key) const;
  int64_t RequireInteger(std::string_view key, int64_t most) const;  ///< from 0 to `most`
  bool RequireBool(std::string_view key) const;
  std::string RequireText(std::string_view key) const;
  const Json& RequireList(std::string_view key) const;
  Object RequireMember(std::string_view key) const;
  const std::string& what() const { return what_; }
  [[noreturn]] void ThrowWrongType(std::string_view key, std::string_view wanted) const;

 private:
  [[noreturn]] void ThrowWrongType(std::string_view key, std::string_view wanted,
                                   const Json& got) const;

  const Json* value_;
  std::string what_;
};

}  // namespace oort::json
