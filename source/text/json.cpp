// SPDX-License-Identifier: MIT
#include "text/json.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "core/problems.h"
#include "oort/error.h"

namespace oort::json {
namespace {

constexpr size_t kMostOrdered = 4096;

/// Builds what the library reads, and refuses what it would take: any depth, and the last of equal
/// keys. The library's own parser with a callback looks at all members of a list again behind each
/// of them, which for the millions of a request's body takes hours.
template <class AnyJson>
class Builder final : public nlohmann::json_sax<AnyJson> {
 public:
  Builder(const std::string& what, ErrorCode code, size_t most_members, size_t deepest)
      : what_(what), code_(code), most_members_(most_members), deepest_(deepest) {}

  AnyJson Take() { return std::move(root_); }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(typename AnyJson::number_integer_t value) override { return Add(value); }
  bool number_unsigned(typename AnyJson::number_unsigned_t value) override { return Add(value); }
  bool number_float(typename AnyJson::number_float_t value, const std::string&) override {
    return Add(value);
  }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(typename AnyJson::binary_t&) override { return Fail("it holds bytes"); }
  bool start_object(size_t) override { return Open(AnyJson::object()); }
  bool start_array(size_t) override { return Open(AnyJson::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& key) override {
    Level& level = open_.back();
    if (!level.keys.insert(key).second) Fail("the key " + Quote(key) + " stands there twice");
    if (level.keys.size() > most_members_) {
      Fail("an object has more than " + std::to_string(most_members_) + " members");
    }
    key_ = std::move(key);
    return true;
  }

  bool parse_error(size_t, const std::string&, const typename AnyJson::exception& error) override {
    return Fail("no valid JSON (" + Shorten(WithoutTag(error.what())) + ")");
  }

 private:
  /// A list or object that is being read. Nothing is added to those around it meanwhile, so they
  /// stay where they are.
  struct Level {
    AnyJson* value;
    std::unordered_set<std::string> keys;
  };

  AnyJson& Put(AnyJson value) {
    if (open_.empty()) return root_ = std::move(value);
    AnyJson& around = *open_.back().value;
    if (around.is_array()) {
      around.push_back(std::move(value));
      return around.back();
    }
    auto& members = around.template get_ref<typename AnyJson::object_t&>();
    if constexpr (std::is_same_v<AnyJson, OrderedJson>) {
      // Known as new by the level's keys: nobody searches all members again for each of them.
      return members.emplace_back(std::move(key_), std::move(value)).second;
    } else {
      return members.emplace(std::move(key_), std::move(value)).first->second;
    }
  }
  bool Add(AnyJson value) {
    Put(std::move(value));
    return true;
  }
  bool Open(AnyJson value) {
    if (open_.size() >= deepest_) Fail("the JSON is nested too deeply");
    AnyJson& put = Put(std::move(value));
    open_.push_back({&put, {}});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }
  [[noreturn]] bool Fail(const std::string& why) const { throw Error(code_, what_ + ": " + why); }

  const std::string& what_;
  const ErrorCode code_;
  const size_t most_members_;
  const size_t deepest_;
  AnyJson root_;
  std::string key_;
  std::vector<Level> open_;
};

template <class AnyJson>
AnyJson ParseWatched(std::string_view text, const std::string& what, ErrorCode code,
                     size_t most_members, size_t deepest) {
  Builder<AnyJson> builder(what, code, most_members, deepest);
  AnyJson::sax_parse(text.begin(), text.end(), &builder);
  return builder.Take();
}

/// Python writes numbers as its own words that JSON does not have: here they become null.
std::string WithoutPythonNumbers(std::string_view text) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string plain;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_text = !in_text;
    const std::string_view rest = text.substr(i);
    const auto* const word =
        in_text ? std::end(kWords) : std::ranges::find_if(kWords, [&](std::string_view known) {
          return rest.starts_with(known);
        });
    if (word != std::end(kWords)) {
      plain += "null";
      i += word->size() - 1;
      continue;
    }
    plain += c;
    if (in_text && c == '\\' && i + 1 < text.size()) plain += text[++i];
  }
  return plain;
}

/// What came instead, for the end of a message.
std::string Got(const Json& value) {
  return std::string(", got ") + (value.is_number() ? value.dump() : value.type_name());
}

}  // namespace

Json Parse(std::string_view text, const std::string& what) {
  if (text.find("Infinity") != text.npos || text.find("NaN") != text.npos) {
    return ParseWatched<Json>(WithoutPythonNumbers(text), what, ErrorCode::kInvalidModel, SIZE_MAX,
                              kDeepest);
  }
  return ParseWatched<Json>(text, what, ErrorCode::kInvalidModel, SIZE_MAX, kDeepest);
}

OrderedJson ParseOrdered(std::string_view text, const std::string& what, size_t deepest) {
  return ParseWatched<OrderedJson>(text, what, ErrorCode::kInvalidArgument, kMostOrdered, deepest);
}

int64_t IntegerOf(const Json& value, const std::string& what, int64_t most) {
  const bool fits =
      value.is_number_unsigned()
          ? value.get<uint64_t>() <= static_cast<uint64_t>(most)
          : value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() <= most;
  if (fits) return value.get<int64_t>();
  throw Error(ErrorCode::kInvalidModel,
              what + " should be a whole number from 0 to " + std::to_string(most) + Got(value));
}

Object::Object(const Json& value, std::string what) : value_(&value), what_(std::move(what)) {
  if (!value.is_object()) {
    throw Error(ErrorCode::kInvalidModel, what_ + " should be a JSON object" + Got(value));
  }
}

void Object::ThrowWrongType(std::string_view key, std::string_view wanted) const {
  throw Error(ErrorCode::kInvalidModel,
              what_ + ": " + Quote(key) + " should be " + std::string(wanted));
}

void Object::ThrowWrongType(std::string_view key, std::string_view wanted, const Json& got) const {
  ThrowWrongType(key, std::string(wanted) + Got(got));
}

const Json* Object::Find(std::string_view key) const {
  const auto at = value_->find(key);
  return at == value_->end() || at->is_null() ? nullptr : &*at;
}

bool Object::IsNull(std::string_view key) const {
  const auto at = value_->find(key);
  return at != value_->end() && at->is_null();
}

std::optional<int64_t> Object::Integer(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer() ||
      (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
    ThrowWrongType(key, "an integer", *value);
  }
  return value->get<int64_t>();
}

const Json& Object::Require(std::string_view key) const {
  if (const Json* value = Find(key)) return *value;
  throw Error(ErrorCode::kInvalidModel, what_ + ": " + Quote(key) + " is missing");
}

int64_t Object::RequireInteger(std::string_view key) const {
  Require(key);
  return *Integer(key);
}

int64_t Object::RequireInteger(std::string_view key, int64_t most) const {
  return IntegerOf(Require(key), what_ + ": " + Quote(key), most);
}

bool Object::RequireBool(std::string_view key) const {
  Require(key);
  return *Bool(key);
}

std::string Object::RequireText(std::string_view key) const {
  Require(key);
  return std::string(*Text(key));
}

const Json& Object::RequireList(std::string_view key) const {
  const Json& value = Require(key);
  if (!value.is_array()) ThrowWrongType(key, "a list", value);
  return value;
}

Object Object::RequireMember(std::string_view key) const {
  return Object(Require(key), what_ + ": " + Quote(key));
}

std::optional<double> Object::Number(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) ThrowWrongType(key, "a number", *value);
  return value->get<double>();
}

std::optional<bool> Object::Bool(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) ThrowWrongType(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string_view> Object::Text(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) ThrowWrongType(key, "a string", *value);
  return value->get_ref<const std::string&>();
}

std::vector<float> Object::Floats(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) ThrowWrongType(key, "a list of numbers", *value);
  std::vector<float> numbers;
  numbers.reserve(value->size());
  for (const Json& number : *value) {
    if (!number.is_number()) ThrowWrongType(key, "a list of numbers");
    numbers.push_back(number.get<float>());
  }
  return numbers;
}

std::optional<Object> Object::Member(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  return Object(*value, what_ + ": " + Quote(key));
}

}  // namespace oort::json
