// SPDX-License-Identifier: MIT
#include "grammar/json_text.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "grammar/sources.h"
#include "oort/error.h"
#include "text/utf8.h"

namespace oort::grammar {
namespace {

constexpr uint32_t kMostIndentation = 20;
constexpr size_t kLongestName = 256;

/// What may stand in a string as it is.
const text::Ranges& PlainCharacters() {
  static const text::Ranges ranges =
      text::Complement(text::Normalized({{0, 0x20}, {'"', '"' + 1}, {'\\', '\\' + 1}}));
  return ranges;
}

std::string EscapeOf(uint32_t c) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  constexpr char kDigits[] = "0123456789abcdef";
  return std::string("\\u00") + kDigits[c / 16] + kDigits[c % 16];
}

ExprId HexDigits(Rules& rules, uint32_t count) {
  return rules.Repeat(rules.Set({{'0', '9' + 1}, {'A', 'F' + 1}, {'a', 'f' + 1}}), count, count);
}

/// \uXXXX, where halves of a pair come together.
ExprId UnicodeEscape(Rules& rules) {
  const ExprId d = rules.Set({{'D', 'D' + 1}, {'d', 'd' + 1}});
  const ExprId not_d =
      rules.Set({{'0', '9' + 1}, {'A', 'C' + 1}, {'E', 'F' + 1}, {'a', 'c' + 1}, {'e', 'f' + 1}});
  const ExprId low = rules.Set({{'0', '7' + 1}});
  const ExprId first = rules.Set({{'8', '9' + 1}, {'A', 'B' + 1}, {'a', 'b' + 1}});
  const ExprId second = rules.Set({{'C', 'F' + 1}, {'c', 'f' + 1}});
  const ExprId two = HexDigits(rules, 2);
  const ExprId pair = rules.Sequence(
      {d, first, two, rules.Text("\\u"), rules.Set({{'D', 'D' + 1}, {'d', 'd' + 1}}), second, two});
  return rules.Sequence(
      {rules.Text("u"), rules.Choice({rules.Sequence({not_d, HexDigits(rules, 3)}),
                                      rules.Sequence({d, low, two}), pair})});
}

/// Names that begin alike are told apart behind what they have in common.
ExprId TextOtherThan(Rules& rules, std::span<const std::string> names, size_t from) {
  text::Ranges others = PlainCharacters();
  std::vector<ExprId> ways;
  bool may_end = true;
  for (size_t i = 0; i < names.size();) {
    if (names[i].size() == from) {
      may_end = false;
      ++i;
      continue;
    }
    size_t behind = from;
    const uint32_t c = text::NextCodePoint(names[i], behind);
    const std::string begin = names[i].substr(0, behind);
    size_t end = i;
    while (end < names.size() && names[end].starts_with(begin)) ++end;
    if (!text::Intersection({{c, c + 1}}, others).empty()) {
      others = text::Intersection(others, text::Complement({{c, c + 1}}));
      ways.push_back(rules.Sequence(
          {rules.Set({{c, c + 1}}), TextOtherThan(rules, names.subspan(i, end - i), behind)}));
    }
    i = end;
  }
  ways.push_back(rules.Sequence(
      {rules.Set(others), rules.Repeat(rules.Set(PlainCharacters()), 0, kUnbounded)}));
  if (may_end) ways.push_back(rules.Empty());
  return rules.Choice(std::move(ways));
}

}  // namespace

ExprId JsonCharacters(Rules& rules, const text::Ranges& ranges) {
  const text::Ranges plain = text::Intersection(ranges, PlainCharacters());
  std::vector<ExprId> ways;
  if (!plain.empty()) ways.push_back(rules.Set(plain));
  for (const auto& [begin, end] : ranges) {
    for (uint32_t c = begin; c < std::min<uint32_t>(end, '\\' + 1); ++c) {
      if (c < 0x20 || c == '"' || c == '\\') ways.push_back(rules.Text(EscapeOf(c)));
    }
  }
  return rules.Choice(std::move(ways));
}

ExprId JsonText::Space() {
  if (space_ < 0) {
    space_ = rules_.AddRule("space");
    const ExprId indentation =
        rules_.Repeat(rules_.Set({{'\t', '\t' + 1}, {' ', ' ' + 1}}), 0, kMostIndentation);
    rules_.Define(space_, rules_.Choice({rules_.Empty(), rules_.Text(" "),
                                         rules_.Sequence({rules_.Text("\n"), indentation})}));
  }
  return rules_.Call(space_);
}

ExprId JsonText::Character() {
  if (character_ < 0) {
    const ExprId simple = rules_.Set({{'"', '"' + 1},
                                      {'\\', '\\' + 1},
                                      {'/', '/' + 1},
                                      {'b', 'b' + 1},
                                      {'f', 'f' + 1},
                                      {'n', 'n' + 1},
                                      {'r', 'r' + 1},
                                      {'t', 't' + 1}});
    const ExprId escape = rules_.Choice({simple, UnicodeEscape(rules_)});
    character_ = rules_.Choice(
        {rules_.Set(PlainCharacters()), rules_.Sequence({rules_.Text("\\"), escape})});
  }
  return character_;
}

ExprId JsonText::String() {
  if (string_ < 0) {
    string_ = rules_.AddRule("string");
    rules_.Define(string_, String(0, kUnbounded));
  }
  return rules_.Call(string_);
}

ExprId JsonText::String(uint32_t min, uint32_t max) {
  return rules_.Sequence(
      {rules_.Text("\""), rules_.Repeat(Character(), min, max), rules_.Text("\"")});
}

ExprId JsonText::Value() {
  if (value_ < 0) {
    value_ = rules_.AddRule("value");
    rules_.Define(value_,
                  rules_.Choice({Object(), Array(), String(), JsonNumbers(rules_, {}, ""),
                                 rules_.Text("true"), rules_.Text("false"), rules_.Text("null")}));
  }
  return rules_.Call(value_);
}

ExprId JsonText::Object() {
  if (object_ < 0) {
    object_ = rules_.AddRule("object");
    rules_.Define(object_, ObjectOf({}, {}, Member(String(), Value()), 0, kUnbounded));
  }
  return rules_.Call(object_);
}

ExprId JsonText::Array() {
  if (array_ < 0) {
    array_ = rules_.AddRule("array");
    rules_.Define(array_, ArrayOf({}, Value(), 0, kUnbounded));
  }
  return rules_.Call(array_);
}

ExprId JsonText::Comma() { return rules_.Sequence({rules_.Text(","), Space()}); }

ExprId JsonText::Listed(const char* open, ExprId members, const char* close) {
  return rules_.Sequence({rules_.Text(open), Space(), members, Space(), rules_.Text(close)});
}

ExprId JsonText::ObjectOf(std::vector<ExprId> members, std::vector<bool> optional, ExprId rest,
                          uint32_t min, uint32_t max) {
  return Listed(
      "{", rules_.Joined(std::move(members), std::move(optional), Comma(), rest, min, max), "}");
}

ExprId JsonText::ArrayOf(std::vector<ExprId> items, ExprId rest, uint32_t min, uint32_t max) {
  std::vector<bool> optional(items.size(), false);
  return Listed("[", rules_.Joined(std::move(items), std::move(optional), Comma(), rest, min, max),
                "]");
}

ExprId JsonText::Member(ExprId key, ExprId value) {
  return rules_.Sequence({key, rules_.Text(":"), Space(), value});
}

ExprId JsonText::KeyOtherThan(std::vector<std::string> names) {
  for (const std::string& name : names) {
    if (name.size() <= kLongestName) continue;
    throw Error(ErrorCode::kLimit,
                "beside additional properties, names of properties have at most " +
                    std::to_string(kLongestName) + " bytes");
  }
  // Names that need escapes cannot be spelled without them.
  std::erase_if(names, [](const std::string& name) {
    return std::ranges::any_of(name,
                               [](unsigned char c) { return c < 0x20 || c == '"' || c == '\\'; });
  });
  std::ranges::sort(names);
  return rules_.Sequence({rules_.Text("\""), TextOtherThan(rules_, names, 0), rules_.Text("\"")});
}

Rules AnyJsonObject() {
  Rules rules;
  JsonText json(rules);
  const ExprId object = json.Object();
  rules.root = rules.AddRule("root");
  rules.Define(rules.root, object);
  return rules;
}

}  // namespace oort::grammar
