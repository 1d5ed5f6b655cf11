// SPDX-License-Identifier: MIT
// The types of JSON values: nlohmann's, which go without taking memory, and whose objects may keep
// the order of the text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace oort::json {

/// The members of an object in their order. The library's own map for that has keys that do not
/// move: each time it grows it copies all values in depth, and a removal may break off half-way.
template <class Key, class Value, class, class Allocator>
class MembersInOrder
    : public std::vector<
          std::pair<Key, Value>,
          typename std::allocator_traits<Allocator>::template rebind_alloc<std::pair<Key, Value>>> {
  using Members = typename MembersInOrder::vector;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using key_compare = std::equal_to<>;
  using Members::erase;
  using Members::Members;
  using typename Members::const_iterator;
  using typename Members::iterator;

  template <class Name>
  iterator find(const Name& name) {
    return std::ranges::find(*this, name, &std::pair<Key, Value>::first);
  }
  template <class Name>
  const_iterator find(const Name& name) const {
    return std::ranges::find(*this, name, &std::pair<Key, Value>::first);
  }
  template <class Name>
  size_t count(const Name& name) const {
    return find(name) == this->end() ? 0 : 1;
  }
  template <class Name>
  std::pair<iterator, bool> emplace(Name&& name, Value value) {
    if (const iterator at = find(name); at != this->end()) return {at, false};
    this->emplace_back(Key(std::forward<Name>(name)), std::move(value));
    return {std::prev(this->end()), true};
  }
  std::pair<iterator, bool> insert(std::pair<Key, Value> member) {
    return emplace(std::move(member.first), std::move(member.second));
  }
  template <class Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) insert(*first);
  }
  template <class Name>
  Value& operator[](Name&& name) {
    return emplace(std::forward<Name>(name), Value()).first->second;
  }
  size_t erase(const Key& name) {
    const iterator at = find(name);
    if (at == this->end()) return 0;
    erase(at);
    return 1;
  }
};

/// As the library's; it makes the types below our own.
template <class Value, class Enable = void>
struct Serializer : nlohmann::adl_serializer<Value, Enable> {};

using Json = nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t,
                                  double, std::allocator, Serializer>;
/// The same, with the members of objects in the order of the text.
using OrderedJson = nlohmann::basic_json<MembersInOrder, std::vector, std::string, bool, int64_t,
                                         uint64_t, double, std::allocator, Serializer>;

/// Whether a value is this text. The library makes a value of the text first where nothing may be
/// thrown, and the process ends where there is no memory for it.
template <class AnyJson>
bool EqualsText(const AnyJson& value, const char* text) {
  const auto* const string = value.template get_ptr<const std::string*>();
  return string != nullptr && *string == text;
}
inline bool operator==(const Json& value, const char* text) { return EqualsText(value, text); }
inline bool operator!=(const Json& value, const char* text) { return !EqualsText(value, text); }
inline bool operator==(const OrderedJson& value, const char* text) {
  return EqualsText(value, text);
}
inline bool operator!=(const OrderedJson& value, const char* text) {
  return !EqualsText(value, text);
}

/// Values of any depth are flattened by the library before they go, into a list that takes memory,
/// and the process ends where there is none. Ours go one in the other: their depth has a limit.
template <class Content>
void FreeNested(Content& content, nlohmann::json::value_t kind) {
  using Kind = nlohmann::json::value_t;
  switch (kind) {
    case Kind::object: delete content.object; break;
    case Kind::array: delete content.array; break;
    case Kind::string: delete content.string; break;
    case Kind::binary: delete content.binary; break;
    default: break;
  }
}

}  // namespace oort::json

template <>
inline void oort::json::Json::json_value::destroy(value_t kind) {
  oort::json::FreeNested(*this, kind);
}
template <>
inline void oort::json::OrderedJson::json_value::destroy(value_t kind) {
  oort::json::FreeNested(*this, kind);
}
