// SPDX-License-Identifier: MIT
#include "openai/fields.h"

#include <algorithm>

#include "core/problems.h"
#include "core/similar.h"

namespace oort::openai {
namespace {

/// What came instead, for the end of a message.
std::string Got(const Json& value) {
  return std::string(", not ") + (value.is_number() ? value.dump() : value.type_name());
}

}  // namespace

std::string ItemPath(std::string_view list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

Fields::Fields(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {
  if (!value.is_object()) {
    throw RequestError(path_, (path_.empty() ? "the request" : Quote(path_)) +
                                  " must be a JSON object" + Got(value));
  }
}

std::string Fields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void Fields::Fail(std::string_view key, const std::string& message) const {
  const std::string path = PathOf(key);
  throw RequestError(path, Quote(path) + " " + message);
}

const Json* Fields::Find(std::string_view key) {
  known_.push_back(key);
  const auto at = value_->find(std::string(key));
  return at == value_->end() || at->is_null() ? nullptr : &*at;
}

std::optional<int64_t> Fields::Integer(std::string_view key, int64_t least, int64_t most) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool whole = value->is_number_integer() &&
                     !(value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX);
  if (!whole || value->get<int64_t>() < least || value->get<int64_t>() > most) {
    Fail(key, "must be a whole number from " + std::to_string(least) + " to " +
                  std::to_string(most) + Got(*value));
  }
  return value->get<int64_t>();
}

std::optional<double> Fields::Number(std::string_view key, double least, double most) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
    Fail(key,
         "must be a number from " + Json(least).dump() + " to " + Json(most).dump() + Got(*value));
  }
  return value->get<double>();
}

std::optional<bool> Fields::Bool(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) Fail(key, "must be true or false" + Got(*value));
  return value->get<bool>();
}

std::optional<std::string_view> Fields::Text(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) Fail(key, "must be a string" + Got(*value));
  return value->get_ref<const std::string&>();
}

const Json* Fields::List(std::string_view key, size_t most) {
  const Json* value = Find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) Fail(key, "must be a list" + Got(*value));
  if (value->size() > most) {
    Fail(key, "has " + std::to_string(value->size()) + " items, at most " + std::to_string(most) +
                  " are taken");
  }
  return value;
}

const Json* Fields::Object(std::string_view key) {
  const Json* value = Find(key);
  if (value != nullptr && !value->is_object()) Fail(key, "must be an object" + Got(*value));
  return value;
}

void Fields::Ignore(std::initializer_list<std::string_view> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void Fields::Refuse(std::string_view key, std::string_view why) {
  if (Find(key) != nullptr) Fail(key, "is not taken: " + std::string(why));
}

void Fields::CheckAllKnown() const {
  for (const auto& [key, value] : value_->items()) {
    if (value.is_null() || std::ranges::find(known_, key) != known_.end()) continue;
    const std::vector<std::string> nearest = NearestNames(key, known_, 1);
    Fail(key, "is not known here" +
                  (nearest.empty() ? std::string() : "; did you mean " + Quote(nearest[0]) + "?"));
  }
}

}  // namespace oort::openai
