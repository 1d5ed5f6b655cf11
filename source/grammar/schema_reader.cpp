// SPDX-License-Identifier: MIT
// From a JSON Schema to rules.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/sources.h"
#include "oort/error.h"

namespace oort::grammar {
namespace {

using Json = OrderedJson;

/// Keywords that are held to, and the type that they say something about.
struct Keyword {
  std::string_view name, type;
};
constexpr Keyword kKeywords[] = {
    {"type", ""},
    {"enum", ""},
    {"const", ""},
    {"anyOf", ""},
    {"oneOf", ""},
    {"allOf", ""},
    {"$ref", ""},
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
};

class SchemaReader {
 public:
  SchemaReader(Rules& rules, JsonText& json, const Json& whole)
      : whole_(whole), rules_(rules), json_(json) {}

  RuleId Read() {
    const RuleId root = RuleOf("#");
    // A reference makes a rule that is read later: so they may form rings.
    while (!pending_.empty()) {
      const auto [pointer, rule] = pending_.back();
      pending_.pop_back();
      rules_.Define(rule, Value(Resolve(pointer), pointer, 0));
    }
    return root;
  }

 private:
  static Error Bad(const std::string& path, const std::string& what) {
    return Error(ErrorCode::kInvalidArgument, "the schema at " + path + " " + what);
  }
  static Error Unsupported(const std::string& path, const std::string& what) {
    return Error(ErrorCode::kUnsupported, "the schema at " + path + " " + what);
  }

  RuleId RuleOf(const std::string& pointer) {
    const auto found = references_.find(pointer);
    if (found != references_.end()) return found->second;
    const RuleId rule = rules_.AddRule(pointer);
    references_.emplace(pointer, rule);
    pending_.emplace_back(pointer, rule);
    return rule;
  }

  const Json& Resolve(const std::string& pointer) const {
    if (pointer == "#") return whole_;
    if (!pointer.starts_with("#/")) {
      throw Unsupported("#", "refers to " + Quote(pointer) +
                                 ", but only references inside of it (\"#/…\") are supported");
    }
    const Json* at = &whole_;
    for (size_t begin = 2; begin <= pointer.size();) {
      const size_t end = std::min(pointer.find('/', begin), pointer.size());
      const std::string name = Unescaped(pointer.substr(begin, end - begin));
      const bool is_index = at->is_array() && !name.empty() && name.size() < 6 &&
                            std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
      if (at->is_object() && at->contains(name)) {
        at = &(*at)[name];
      } else if (is_index && std::stoul(name) < at->size()) {
        at = &(*at)[std::stoul(name)];
      } else {
        throw Bad("#", "refers to " + Quote(pointer) + ", which it does not have");
      }
      begin = end + 1;
    }
    return *at;
  }

  static std::string Unescaped(std::string name) {
    const auto replace = [&](std::string_view from, std::string_view to) {
      for (size_t at = name.find(from); at != std::string::npos; at = name.find(from, at + 1)) {
        name.replace(at, from.size(), to);
      }
    };
    replace("%24", "$");
    replace("%20", " ");
    replace("~1", "/");
    replace("~0", "~");
    return name;
  }

  static void CheckKeywords(const Json& schema, const std::string& path) {
    for (const auto& [key, value] : schema.items()) {
      const bool known = std::ranges::find(kKeywords, key, &Keyword::name) != std::end(kKeywords);
      if (known || IsAnnotation(key)) continue;
      if ((key == "uniqueItems" && value == false) || (key == "nullable" && value == false))
        continue;
      throw Unsupported(path, "has the keyword " + Quote(key) +
                                  ", which answers cannot be held to: leave it out");
    }
  }

  /// What is left of a schema without this keyword.
  static Json Without(Json schema, const std::string& key) {
    schema.erase(key);
    return schema;
  }
  static bool HasMoreThan(const Json& schema, const std::string& key) {
    for (const auto& [name, value] : schema.items()) {
      if (name != key && !IsAnnotation(name)) return true;
    }
    return false;
  }

  ExprId Value(const Json& schema, const std::string& path, int depth) {
    if (depth > kMostDepth) {
      throw Error(ErrorCode::kLimit, "the schema is nested more than " +
                                         std::to_string(kMostDepth) + " deep, at " + path);
    }
    deadline_.Check();
    if (schema.is_boolean()) return schema.get<bool>() ? json_.Value() : rules_.Nothing();
    if (!schema.is_object()) throw Bad(path, "is no object");
    CheckKeywords(schema, path);
    if (schema.contains("$ref")) return Reference(schema, path, depth);
    if (schema.contains("allOf")) return AllOf(schema, path, depth);
    if (schema.contains("anyOf")) return AnyOf(schema, "anyOf", path, depth);
    if (schema.contains("oneOf")) return AnyOf(schema, "oneOf", path, depth);
    const std::vector<std::string> types = TypesOf(schema, path);
    if (schema.contains("const") || schema.contains("enum")) return Listed(schema, types, path);
    std::vector<ExprId> ways;
    for (const std::string& type : types) ways.push_back(OfType(schema, type, path, depth));
    return rules_.Choice(std::move(ways));
  }

  ExprId Reference(const Json& schema, const std::string& path, int depth) {
    const Json& target = schema["$ref"];
    if (!target.is_string()) throw Bad(path, "has a \"$ref\" that is no string");
    const std::string pointer = target.get<std::string>();
    if (!HasMoreThan(schema, "$ref")) {
      Resolve(pointer);  // refused here, where the path is known
      return rules_.Call(RuleOf(pointer));
    }
    return Value(MergedSchema(Without(schema, "$ref"), Resolve(pointer), path), path, depth + 1);
  }

  static const Json& PartsOf(const Json& schema, const std::string& key, const std::string& path) {
    const Json& parts = schema[key];
    if (!parts.is_array() || parts.empty()) {
      throw Bad(path, "has " + Quote(key) + " that is no list of schemas");
    }
    return parts;
  }

  ExprId AllOf(const Json& schema, const std::string& path, int depth) {
    const Json& parts = PartsOf(schema, "allOf", path);
    if (parts.size() == 1 && !HasMoreThan(schema, "allOf")) {
      return Value(parts[0], path + "/allOf/0", depth + 1);
    }
    Json merged = Without(schema, "allOf");
    for (const Json& part : parts) merged = MergedSchema(merged, Plain(part, path, 0), path);
    return Value(merged, path, depth + 1);
  }

  /// A schema that is a reference alone as what it refers to.
  const Json& Plain(const Json& schema, const std::string& path, int depth) const {
    if (depth > kMostDepth) throw Bad(path, "refers to itself");
    if (!schema.is_object() || !schema.contains("$ref") || HasMoreThan(schema, "$ref") ||
        !schema["$ref"].is_string()) {
      return schema;
    }
    return Plain(Resolve(schema["$ref"].get<std::string>()), path, depth + 1);
  }

  ExprId AnyOf(const Json& schema, const std::string& key, const std::string& path, int depth) {
    const Json& parts = PartsOf(schema, key, path);
    const bool more = HasMoreThan(schema, key);
    if (key == "oneOf") CheckOneOf(parts, path);
    std::vector<ExprId> ways;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string own = path + "/" + key + "/" + std::to_string(i);
      if (more) {
        const Json& part = Plain(parts[i], own, 0);
        ways.push_back(Value(MergedSchema(Without(schema, key), part, own), own, depth + 1));
      } else {
        ways.push_back(Value(parts[i], own, depth + 1));
      }
    }
    return rules_.Choice(std::move(ways));
  }

  void CheckOneOf(const Json& parts, const std::string& path) const {
    for (size_t i = 0; i < parts.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (AreDisjoint(Plain(parts[i], path, 0), Plain(parts[j], path, 0))) continue;
        throw Unsupported(path, "has \"oneOf\", of which parts " + std::to_string(j) + " and " +
                                    std::to_string(i) +
                                    " may match the same answer: use \"anyOf\"");
      }
    }
  }

  /// The types that answers may have: those that it names, or the one that its keywords are about.
  static std::vector<std::string> TypesOf(const Json& schema, const std::string& path) {
    const auto at = schema.find("type");
    if (at == schema.end()) {
      for (const auto& [key, value] : schema.items()) {
        const auto* keyword = std::ranges::find(kKeywords, key, &Keyword::name);
        if (keyword != std::end(kKeywords) && !keyword->type.empty()) {
          return {std::string(keyword->type)};
        }
      }
      return {"any"};
    }
    std::vector<std::string> types;
    for (const Json& type : at->is_array() ? *at : Json::array({*at})) {
      constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                             "integer", "boolean", "null"};
      const bool known = type.is_string() &&
                         std::ranges::find(kTypes, type.get<std::string>()) != std::end(kTypes);
      if (!known)
        throw Bad(path, "has a \"type\" that JSON does not have: " + Shorten(type.dump()));
      types.push_back(type.get<std::string>());
    }
    return types;
  }

  static bool IsOfType(const Json& value, const std::string& type) {
    if (type == "any") return true;
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "number") return value.is_number();
    if (type == "integer") return value.is_number_integer();
    if (type == "boolean") return value.is_boolean();
    return value.is_null();
  }

  ExprId Listed(const Json& schema, const std::vector<std::string>& types,
                const std::string& path) {
    for (const Keyword& keyword : kKeywords) {
      if (!keyword.type.empty() && schema.contains(keyword.name)) {
        throw Unsupported(path, "has " + Quote(keyword.name) +
                                    " beside a list of values: leave it out, or the values that "
                                    "do not match it");
      }
    }
    Json values = schema.contains("const") ? Json::array({schema["const"]}) : schema["enum"];
    if (!values.is_array() || values.empty()) throw Bad(path, "has an \"enum\" that is no list");
    std::vector<ExprId> ways;
    for (const Json& value : values) {
      const bool fits =
          std::ranges::any_of(types, [&](const auto& type) { return IsOfType(value, type); }) &&
          (!schema.contains("enum") ||
           std::ranges::find(schema["enum"], value) != schema["enum"].end());
      if (fits) ways.push_back(rules_.Text(value.dump()));
    }
    return rules_.Choice(std::move(ways));
  }

  ExprId OfType(const Json& schema, const std::string& type, const std::string& path, int depth) {
    if (type == "any") return json_.Value();
    if (type == "null") return rules_.Text("null");
    if (type == "boolean") return rules_.Choice({rules_.Text("true"), rules_.Text("false")});
    if (type == "string") return String(schema, path);
    if (type == "integer")
      return JsonIntegers(rules_, RangeOf(schema, path), "the schema at " + path);
    if (type == "number")
      return JsonNumbers(rules_, RangeOf(schema, path), "the schema at " + path);
    // A rule of its own: what is inside of it is then found once, however deep it stands.
    const RuleId rule = rules_.AddRule(path);
    rules_.Define(rule,
                  type == "object" ? Object(schema, path, depth) : Array(schema, path, depth));
    return rules_.Call(rule);
  }

  static std::optional<double> NumberOf(const Json& schema, const char* key,
                                        const std::string& path) {
    const auto at = schema.find(key);
    if (at == schema.end()) return {};
    if (!at->is_number()) throw Bad(path, "has " + Quote(key) + " that is no number");
    return at->get<double>();
  }

  static NumberRange RangeOf(const Json& schema, const std::string& path) {
    NumberRange range;
    if (const auto low = NumberOf(schema, "minimum", path)) range.low = {*low, false};
    if (const auto high = NumberOf(schema, "maximum", path)) range.high = {*high, false};
    if (const auto low = NumberOf(schema, "exclusiveMinimum", path)) {
      if (!range.low || *low >= range.low->value) range.low = {*low, true};
    }
    if (const auto high = NumberOf(schema, "exclusiveMaximum", path)) {
      if (!range.high || *high <= range.high->value) range.high = {*high, true};
    }
    return range;
  }

  static uint32_t CountOf(const Json& schema, const char* key, uint32_t otherwise,
                          const std::string& path) {
    const auto at = schema.find(key);
    if (at == schema.end()) return otherwise;
    const bool whole =
        at->is_number_unsigned() ||
        (at->is_number_float() && at->get<double>() >= 0 &&
         at->get<double>() ==
             static_cast<double>(static_cast<uint32_t>(std::min(at->get<double>(), 1e9))));
    if (!whole) throw Bad(path, "has " + Quote(key) + " that is no whole number from 0 on");
    const double count = at->get<double>();
    if (count > kMostRepeats) {
      throw Error(ErrorCode::kLimit, "the schema at " + path + " has " + Quote(key) + " above " +
                                         std::to_string(kMostRepeats) +
                                         ", which is the most that is taken");
    }
    return static_cast<uint32_t>(count);
  }

  ExprId String(const Json& schema, const std::string& path) {
    const bool sized = schema.contains("minLength") || schema.contains("maxLength");
    const bool has_pattern = schema.contains("pattern");
    const bool has_format = schema.contains("format");
    if (int{sized} + int{has_pattern} + int{has_format} > 1) {
      throw Unsupported(path,
                        "has more than one of \"pattern\", \"format\" and a length for a string, "
                        "which is not supported: put the length into the pattern");
    }
    const std::string what = "the pattern at " + path;
    if (has_pattern) {
      if (!schema["pattern"].is_string()) throw Bad(path, "has a \"pattern\" that is no string");
      return Quoted(RegexExpr(rules_, schema["pattern"].get<std::string>(), Spelling::kJsonString,
                              false, what));
    }
    if (has_format) {
      if (!schema["format"].is_string()) throw Bad(path, "has a \"format\" that is no string");
      const std::string format = schema["format"].get<std::string>();
      const std::string_view pattern = PatternOfFormat(format);
      if (pattern.empty()) {
        throw Unsupported(path, "has the \"format\" " + Quote(format) +
                                    ", which is not known; known are " + KnownFormats());
      }
      return Quoted(RegexExpr(rules_, pattern, Spelling::kJsonString, true, what));
    }
    if (!sized) return json_.String();
    const uint32_t min = CountOf(schema, "minLength", 0, path);
    const uint32_t max = CountOf(schema, "maxLength", kUnbounded, path);
    if (min > max) throw Bad(path, "has a \"minLength\" above its \"maxLength\"");
    return json_.String(min, max);
  }

  ExprId Quoted(ExprId content) {
    return rules_.Sequence({rules_.Text("\""), content, rules_.Text("\"")});
  }

  ExprId Object(const Json& schema, const std::string& path, int depth) {
    const bool has_properties = schema.contains("properties");
    const Json properties = has_properties ? schema["properties"] : Json::object();
    if (!properties.is_object()) throw Bad(path, "has \"properties\" that are no object");
    const Json required = schema.contains("required") ? schema["required"] : Json::array();
    if (!required.is_array()) throw Bad(path, "has \"required\" that is no list");
    // Where nothing is said about others, an answer need not have them; an object of which nothing
    // is said at all may hold anything.
    const bool open = !schema.contains("additionalProperties");
    const bool bare = !has_properties && required.empty();
    const Json additional = open ? Json(bare) : schema["additionalProperties"];
    if (bare && additional == true) return json_.Object();

    std::vector<ExprId> members;
    std::vector<bool> optional;
    std::vector<std::string> names;
    const auto add = [&](const std::string& name, const Json& value, bool is_optional) {
      const ExprId key = rules_.Text(Json(name).dump());
      const std::string own = path + "/properties/" + name;
      members.push_back(json_.Member(key, Value(value, own, depth + 1)));
      optional.push_back(is_optional);
      names.push_back(name);
    };
    for (const auto& [name, value] : properties.items()) {
      const bool is_required = std::ranges::find(required, Json(name)) != required.end();
      if (value == false && !is_required) {
        names.push_back(name);
        continue;
      }
      add(name, value, !is_required);
    }
    for (const Json& name : required) {
      if (!name.is_string()) throw Bad(path, "has \"required\" with what is no name");
      if (properties.contains(name.get<std::string>())) continue;
      if (additional == false && !open) {
        throw Bad(path, "requires " + Quote(name.get<std::string>()) +
                            ", which its \"properties\" do not have and "
                            "\"additionalProperties\" forbids");
      }
      if (std::ranges::find(names, name.get<std::string>()) != names.end()) continue;
      add(name.get<std::string>(), open ? Json(true) : additional, false);
    }
    ExprId rest = -1;
    if (additional != false) {
      const ExprId value = Value(additional, path + "/additionalProperties", depth + 1);
      rest = json_.Member(json_.KeyOtherThan(names), value);
    }
    return json_.ObjectOf(std::move(members), std::move(optional), rest, 0, kUnbounded);
  }

  ExprId Array(const Json& schema, const std::string& path, int depth) {
    const uint32_t min = CountOf(schema, "minItems", 0, path);
    const uint32_t max = CountOf(schema, "maxItems", kUnbounded, path);
    if (min > max) throw Bad(path, "has a \"minItems\" above its \"maxItems\"");
    const Json prefix = schema.contains("prefixItems") ? schema["prefixItems"] : Json::array();
    if (!prefix.is_array()) throw Bad(path, "has \"prefixItems\" that are no list");
    std::vector<ExprId> first;
    for (size_t i = 0; i < prefix.size() && i < max; ++i) {
      const std::string own = path + "/prefixItems/" + std::to_string(i);
      first.push_back(Value(prefix[i], own, depth + 1));
    }
    const auto count = static_cast<uint32_t>(first.size());
    // Behind the first ones, others come only where the schema asks for them.
    const Json items =
        schema.contains("items") ? schema["items"] : Json(prefix.empty() || min > count);
    if (items.is_array()) {
      throw Unsupported(path, "has a list of \"items\": newer schemas name it \"prefixItems\"");
    }
    if (items == false && min > count) throw Bad(path, "asks for more items than it allows");
    if (items == false || max <= count) return json_.ArrayOf(std::move(first), -1, 0, 0);
    const ExprId rest = Value(items, path + "/items", depth + 1);
    return json_.ArrayOf(std::move(first), rest, min > count ? min - count : 0,
                         max == kUnbounded ? max : max - count);
  }

  const Json& whole_;
  Deadline deadline_{kMostCompileTime};
  Rules& rules_;
  JsonText& json_;
  std::map<std::string, RuleId> references_;
  std::vector<std::pair<std::string, RuleId>> pending_;
};

}  // namespace

RuleId AddJsonSchema(Rules& rules, JsonText& json, const OrderedJson& schema) {
  return SchemaReader(rules, json, schema).Read();
}

Rules ReadJsonSchema(std::string_view schema) {
  CheckTextSize(schema, "the schema");
  const Json whole = ParseOrdered(schema, "the schema");
  Rules rules;
  JsonText json(rules);
  rules.root = AddJsonSchema(rules, json, whole);
  return rules;
}

}  // namespace oort::grammar
