// SPDX-License-Identifier: MIT
#include "grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "grammar/rules.h"
#include "oort/error.h"

namespace oort::grammar {
namespace {

constexpr size_t kMostJsonDepth = 4 * kMostDepth;  // a level of a schema is a few of its JSON

constexpr std::string_view kAnnotations[] = {
    "title",    "description", "default",  "examples",      "$schema",          "$id",
    "$comment", "deprecated",  "readOnly", "writeOnly",     "contentMediaType", "contentEncoding",
    "$defs",    "definitions", "$anchor",  "discriminator",
};

#define OORT_DATE                                                               \
  "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:" \
  "0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define OORT_TIME                                                                \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01]" \
  "[0-9]|2[0-3]):[0-5][0-9])"
#define OORT_HOST                                        \
  "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[" \
  "a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?){0,9}"
#define OORT_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define OORT_HEX "[0-9a-fA-F]{1,4}"
#define OORT_CLOCK "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date-time", OORT_DATE "T" OORT_TIME},
    {"date", OORT_DATE},
    {"time", OORT_TIME},
    {"duration",
     "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:" OORT_CLOCK
     ")?|" OORT_CLOCK ")"},
    {"email", "[a-zA-Z0-9_+-]+(?:\\.[a-zA-Z0-9_+-]+)*@" OORT_HOST},
    {"hostname", OORT_HOST},
    {"ipv4", OORT_BYTE "(?:\\." OORT_BYTE "){3}"},
    {"ipv6",
     "(?:" OORT_HEX ":){7}" OORT_HEX "|(?:" OORT_HEX ":){1,7}:|(?:" OORT_HEX ":){1,6}:" OORT_HEX
     "|(?:" OORT_HEX ":){1,5}(?::" OORT_HEX "){2}|(?:" OORT_HEX ":){1,4}(?::" OORT_HEX
     "){3}|(?:" OORT_HEX ":){1,3}(?::" OORT_HEX "){4}|(?:" OORT_HEX ":){1,2}(?::" OORT_HEX
     "){5}|" OORT_HEX ":(?::" OORT_HEX "){6}|:(?:(?::" OORT_HEX "){1,7}|:)"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"uri", "[a-zA-Z][a-zA-Z0-9+.-]*:(?://" OORT_HOST "(?::[0-9]{1,5})?)?[a-zA-Z0-9/?#_~.&=%+-]*"},
};

#undef OORT_DATE
#undef OORT_TIME
#undef OORT_HOST
#undef OORT_BYTE
#undef OORT_HEX
#undef OORT_CLOCK

/// Types that a schema names; all where it names none.
std::vector<std::string> TypesOf(const OrderedJson& schema) {
  const auto at = schema.find("type");
  if (at == schema.end()) {
    return {"object", "array", "string", "number", "integer", "boolean", "null"};
  }
  std::vector<std::string> types;
  for (const OrderedJson& type : at->is_array() ? *at : OrderedJson::array({*at})) {
    if (type.is_string()) types.push_back(type.get<std::string>());
  }
  return types;
}

OrderedJson CommonTypes(const OrderedJson& a, const OrderedJson& b) {
  const auto types_a = TypesOf({{"type", a}});
  const auto types_b = TypesOf({{"type", b}});
  OrderedJson common = OrderedJson::array();
  const auto has = [](const std::vector<std::string>& list, const std::string& type) {
    return std::ranges::find(list, type) != list.end();
  };
  for (const std::string& type : types_a) {
    if (has(types_b, type)) common.push_back(type);
    // A whole number is a number, too.
    if (type == "integer" && !has(types_b, type) && has(types_b, "number")) common.push_back(type);
    if (type == "number" && !has(types_b, type) && has(types_b, "integer")) {
      common.push_back("integer");
    }
  }
  return common;
}

OrderedJson CommonValues(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson common = OrderedJson::array();
  for (const OrderedJson& value : a) {
    if (std::ranges::find(b, value) != b.end()) common.push_back(value);
  }
  return common;
}

OrderedJson AllNames(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson all = a;
  for (const OrderedJson& name : b) {
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  }
  return all;
}

/// The values that a schema lists, if it does.
const OrderedJson* ListedValues(const OrderedJson& schema, OrderedJson& buffer) {
  if (!schema.is_object()) return nullptr;
  if (const auto at = schema.find("const"); at != schema.end()) {
    buffer = OrderedJson::array({*at});
    return &buffer;
  }
  const auto at = schema.find("enum");
  return at == schema.end() || !at->is_array() ? nullptr : &*at;
}

bool IsRequired(const OrderedJson& schema, const std::string& name) {
  const auto at = schema.find("required");
  return at != schema.end() && at->is_array() &&
         std::ranges::find(*at, OrderedJson(name)) != at->end();
}

/// A keyword that both have, with other values.
OrderedJson MergedKeyword(const std::string& key, const OrderedJson& a, const OrderedJson& b,
                          const std::string& path) {
  const bool numbers = a.is_number() && b.is_number();
  if (key == "type") return CommonTypes(a, b);
  if (key == "required" && a.is_array() && b.is_array()) return AllNames(a, b);
  if (key == "enum" && a.is_array() && b.is_array()) return CommonValues(a, b);
  if (numbers && (key.starts_with("min") || key == "exclusiveMinimum")) return a < b ? b : a;
  if (numbers && (key.starts_with("max") || key == "exclusiveMaximum")) return a < b ? a : b;
  if (key == "items") return MergedSchema(a, b, path + "/items");
  if (key == "properties" && a.is_object() && b.is_object()) {
    OrderedJson merged = a;
    for (const auto& [name, schema] : b.items()) {
      const auto at = merged.find(name);
      if (at == merged.end()) {
        merged[name] = schema;
      } else {
        *at = MergedSchema(OrderedJson(*at), schema, path + "/properties/" + name);
      }
    }
    return merged;
  }
  throw Error(ErrorCode::kUnsupported,
              "the schema at " + path + " has " + Quote(key) +
                  " in several parts that hold together, which is not supported: join them");
}

}  // namespace

OrderedJson ParseOrdered(std::string_view text, const std::string& what) {
  return json::ParseOrdered(text, what, kMostJsonDepth);
}

bool IsAnnotation(std::string_view keyword) {
  return std::ranges::find(kAnnotations, keyword) != std::end(kAnnotations) ||
         keyword.starts_with("x-");
}

OrderedJson MergedSchema(const OrderedJson& a, const OrderedJson& b, const std::string& path) {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  if (!a.is_object() || !b.is_object()) {
    throw Error(ErrorCode::kInvalidArgument, "the schema at " + path + " is no object");
  }
  // Which properties are additional depends on the schema that says what becomes of them.
  for (const auto* one : {&a, &b}) {
    const OrderedJson& other = one == &a ? b : a;
    const auto additional = one->find("additionalProperties");
    if (additional != one->end() && *additional != true && other.contains("properties") &&
        !other["properties"].empty()) {
      throw Error(ErrorCode::kUnsupported,
                  "the schema at " + path +
                      " has \"additionalProperties\" and, in another part that holds together "
                      "with it, \"properties\", which is not supported: join them");
    }
  }
  OrderedJson merged = a;
  for (const auto& [key, value] : b.items()) {
    const auto at = merged.find(key);
    if (at == merged.end()) {
      merged[key] = value;
    } else if (*at != value && !IsAnnotation(key)) {
      *at = MergedKeyword(key, OrderedJson(*at), value, path);
    }
  }
  return merged;
}

bool AreDisjoint(const OrderedJson& a, const OrderedJson& b) {
  if (!a.is_object() || !b.is_object()) return false;
  OrderedJson buffer_a;
  OrderedJson buffer_b;
  const OrderedJson* values_a = ListedValues(a, buffer_a);
  const OrderedJson* values_b = ListedValues(b, buffer_b);
  if (values_a != nullptr && values_b != nullptr) return CommonValues(*values_a, *values_b).empty();
  if (a.contains("type") && b.contains("type") && CommonTypes(a["type"], b["type"]).empty()) {
    return true;
  }
  const auto properties = a.find("properties");
  if (properties == a.end() || !properties->is_object() || !b.contains("properties") ||
      !b["properties"].is_object()) {
    return false;
  }
  const bool objects = TypesOf(a) == std::vector<std::string>{"object"} &&
                       TypesOf(b) == std::vector<std::string>{"object"};
  if (!objects) return false;
  for (const auto& [name, schema] : properties->items()) {
    const auto other = b["properties"].find(name);
    if (other == b["properties"].end() || !IsRequired(a, name) || !IsRequired(b, name)) continue;
    if (AreDisjoint(schema, *other)) return true;
  }
  return false;
}

std::string_view PatternOfFormat(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return {};
}

std::string KnownFormats() {
  std::string names;
  for (const auto& [name, pattern] : kFormats) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

}  // namespace oort::grammar
