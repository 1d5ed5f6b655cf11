// SPDX-License-Identifier: MIT
// JSON Schemas: what they take against a validator of the test's own, and what they refuse to be.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "grammar/accepts.h"
#include "grammar/sources.h"
#include "oort/error.h"

namespace oort::grammar {
namespace {

using Json = nlohmann::ordered_json;

Acceptor OfSchema(const std::string& schema) { return Acceptor(ReadJsonSchema(schema)); }

TEST(JsonSchema, TakesAndRefuses) {
  struct Case {
    std::string schema;
    std::vector<std::string> taken, refused;
  };
  const std::vector<Case> cases = {
      {R"({"type": "string"})",
       {R"("")", R"("a\n\u00e4\ud83d\ude00")", "\"\u20ac\""},
       {"a", R"("\x")", "\"\n\"", R"("\ud83d")", R"("\ude00")", R"("a)"}},
      {R"({"type": "integer"})", {"0", "-7", "1234567890123"}, {"01", "1.0", "-", "1e3"}},
      {R"({"type": "number"})", {"0", "-7.25", "1e+10", "0.5E-3"}, {".5", "1.", "+1", "1e"}},
      {R"({"type": ["boolean", "null"]})", {"true", "false", "null"}, {"nul", "0"}},
      {R"({"enum": ["a", 1, null, {"b": [true]}, "\"\n"]})",
       {R"("a")", "1", "null", R"({"b":[true]})", R"("\"\n")"},
       {"a", "true", "2"}},
      {R"({"const": 3.5})", {"3.5"}, {"3", "3.50"}},
      {R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"}},
      {R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "null"}},
           "required": ["b", "a"], "additionalProperties": false})",
       {R"({"b":1,"a":null})", R"({"b": 1, "a": null})", "{\n  \"b\": 1,\n  \"a\": null\n}"},
       {R"({"a":null,"b":1})", R"({"b":1})", "{}", R"({"b":1,"a":null,})",
        R"({"b":1,"a":null,"c":1})", R"({"b":  1,"a":null})"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"},
           "c": {"type": "null"}}, "required": ["b"]})",
       {R"({"b":null})", R"({"a":null,"b":null})", R"({"b":null,"c":null})",
        R"({"a":null,"b":null,"c":null})"},
       {"{}", R"({"a":null})", R"({"a":null,"c":null})", R"({,"b":null})", R"({"b":null,"d":1})"}},
      {R"({"type": "object", "properties": {"ab": {"type": "null"}},
           "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"ab":null})", R"({"ab":null,"a":1,"abc":2,"":3})", R"({"x":1,"x":2})"},
       {R"({"ab":1})", R"({"ab":null,"ab":1})", R"({"x":null})", R"({"\u0061b":1})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"a":1})"},
       {R"({"a":"b"})"}},
      {R"({"type": "object"})", {"{}", R"({"a": [1, {"b": null}]})"}, {"[]", R"({"a"})"}},
      {R"({"type": "object", "required": ["x"]})", {R"({"x":[]})"}, {"{}"}},
      {R"({})", {"1", "\"a\"", "[[], {}]", "null"}, {"", "nul"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1,2]", "[1, 2,\n 3]"},
       {"[]", "[1,2,3,4]", "[1,]", "[a]"}},
      {R"({"type": "array", "items": {"type": "null"}, "maxItems": 0})", {"[]", "[ ]"}, {"[null]"}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}, {"type": "integer"}],
           "items": {"type": "boolean"}, "maxItems": 3})",
       {"[null,1]", "[null,1,true]"},
       {"[null]", "[1,null]", "[null,1,true,true]"}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}], "items": false})",
       {"[null]"},
       {"[]", "[null,1]"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", "\"\u20ac\U0001F600x\"", R"("\n\"\\")", R"("\ud83d\ude00a")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type": "string", "pattern": "^[a-z\"]+$"})",
       {R"("abc")", R"("a\"b")"},
       {R"("aBc")", R"("")", R"("a"b")"}},
      {R"({"type": "string", "pattern": "b.d"})",
       {R"("bad")", R"("xx b\"d\n")"},
       {R"("b\nd")", R"("bd")"}},
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-28")", R"("1999-12-31")"},
       {R"("2024-02-30")", R"("2024-13-01")", R"("24-01-01")"}},
      {R"({"type": "string", "format": "date-time"})",
       {R"("2024-02-28T23:59:59.5+01:00")"},
       {R"("2024-02-28")", R"("2024-02-28T24:00:00Z")"}},
      {R"({"type": "string", "format": "uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567")"}},
      {R"({"type": "string", "format": "ipv4"})",
       {R"("255.0.10.1")"},
       {R"("256.0.0.1")", R"("1.2.3")"}},
      {R"({"type": "string", "format": "ipv6"})",
       {R"("::1")", R"("::")", R"("2001:db8::8a2e:370:7334")", R"("1:2:3:4:5:6:7:8")", R"("1::")"},
       {R"("1:2:3")", R"(":1")", R"("1::2::3")", R"("1:2:3:4:5:6:7:8:9")"}},
      {R"({"type": "string", "format": "email"})",
       {R"("a.b+c@example.org")"},
       {R"("a@")", R"("@b")"}},
      {R"({"type": "string", "format": "duration"})",
       {R"("P1DT2H")", R"("PT5M")", R"("P2W")"},
       {R"("P")", R"("PT")", R"("1D")"}},
      {R"({"type": "integer", "minimum": -3, "exclusiveMaximum": 120})",
       {"-3", "0", "9", "119", "99"},
       {"-4", "120", "1000", "00"}},
      {R"({"type": "integer", "minimum": 17})", {"17", "99", "100", "123456"}, {"16", "9", "-20"}},
      {R"({"type": "integer", "maximum": -5})", {"-5", "-123"}, {"-4", "0", "5"}},
      {R"({"type": "number", "minimum": 0, "maximum": 1})",
       {"0", "1", "0.5", "1.000", "0.0"},
       {"1.01", "2", "-0.5", "1e0"}},
      {R"({"type": "number", "exclusiveMinimum": 0.25, "exclusiveMaximum": 12.5})",
       {"0.251", "0.3", "12.49", "12", "5", "0.2500001"},
       {"0.25", "0.250", "0.2", "0", "12.5", "13"}},
      {R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]})",
       {"1", "[]", "[1, [2, []]]"},
       {"[a]", "null"}},
      {R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next":
           {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"],
           "additionalProperties": false}}, "$ref": "#/$defs/node"})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})", R"({"v":1,"next":{}})"}},
      {R"({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]})", {"3", "5"}, {"2", "6"}},
      {R"({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"], "anyOf": [
           {"properties": {"k": {"const": "a"}, "x": {"type": "null"}}, "required": ["x"]},
           {"properties": {"k": {"const": "b"}}}]})",
       {R"({"k":"a","x":null})", R"({"k":"b"})"},
       {R"({"k":"a"})", R"({"k":"c"})"}},
      {R"({"oneOf": [{"type": "object", "properties": {"t": {"const": 1}}, "required": ["t"]},
           {"type": "object", "properties": {"t": {"const": 2}}, "required": ["t"]}]})",
       {R"({"t":1})", R"({"t":2})"},
       {R"({"t":3})"}},
      {R"({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "null"}}})",
       {"null"},
       {"1"}},
      {R"({"title": "T", "description": "d", "default": 1, "type": "null"})", {"null"}, {"1"}},
  };
  for (const Case& one : cases) {
    Acceptor acceptor = OfSchema(one.schema);
    for (const std::string& text : one.taken) {
      EXPECT_TRUE(acceptor.Takes(text)) << one.schema << "\ntakes " << text;
    }
    for (const std::string& text : one.refused) {
      EXPECT_FALSE(acceptor.Takes(text)) << one.schema << "\nrefuses " << text;
    }
  }
}

TEST(JsonSchema, SaysWhatItCannotHoldTo) {
  struct Case {
    std::string schema;
    ErrorCode code;
    std::string part;
  };
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += R"({"type":"array","items":)";
  deep += "{}" + std::string(40, '}');
  std::string many = R"({"$defs":{)";
  for (int i = 0; i < 30; ++i) {
    const std::string next = "#/$defs/a" + std::to_string(i + 1);
    const std::string part = R"({"$ref":")" + next + R"(","minimum":)" + std::to_string(i) + "}";
    many += "\"a" + std::to_string(i) + R"(":{"anyOf":[)" + part + "," + part + "]},";
  }
  many += R"("a30":{"type":"integer"}},"$ref":"#/$defs/a0"})";
  const std::vector<Case> cases = {
      {"{", ErrorCode::kInvalidArgument, "JSON"},
      {"3", ErrorCode::kInvalidArgument, "no object"},
      {R"({"type": "text"})", ErrorCode::kInvalidArgument, "text"},
      {R"({"type": "null", "type": "null"})", ErrorCode::kInvalidArgument, "twice"},
      {R"({"not": {}})", ErrorCode::kUnsupported, "not"},
      {R"({"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 3}}})",
       ErrorCode::kUnsupported, "#/properties/a has the keyword 'multipleOf'"},
      {R"({"type": "array", "uniqueItems": true})", ErrorCode::kUnsupported, "uniqueItems"},
      {R"({"patternProperties": {}})", ErrorCode::kUnsupported, "patternProperties"},
      {R"({"minimun": 1})", ErrorCode::kUnsupported, "minimun"},
      {R"({"type": "string", "format": "color"})", ErrorCode::kUnsupported, "date-time"},
      {R"({"type": "string", "pattern": "a", "maxLength": 3})", ErrorCode::kUnsupported, "length"},
      {R"x({"type": "string", "pattern": "a(?=b)"})x", ErrorCode::kUnsupported, "look-ahead"},
      {R"({"$ref": "#/$defs/x"})", ErrorCode::kInvalidArgument, "$defs/x"},
      {R"({"$ref": "http://example.org/s.json"})", ErrorCode::kUnsupported, "#/"},
      {R"({"$ref": "#"})", ErrorCode::kInvalidArgument, "nothing matches"},
      {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", ErrorCode::kInvalidArgument, "recursion"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", ErrorCode::kUnsupported, "anyOf"},
      {R"({"type": "array", "items": {}, "maxItems": 18446744073709551615})", ErrorCode::kLimit,
       "1000"},
      {R"({"type": "array", "minItems": 3, "maxItems": 2})", ErrorCode::kInvalidArgument,
       "minItems"},
      {R"({"type": "array", "minItems": -1})", ErrorCode::kInvalidArgument, "minItems"},
      {R"({"type": "string", "maxLength": 1e300})", ErrorCode::kInvalidArgument, "maxLength"},
      {R"({"type": "integer", "minimum": 1e30})", ErrorCode::kUnsupported, "10^15"},
      {R"({"type": "integer", "minimum": 5, "maximum": 4})", ErrorCode::kInvalidArgument,
       "nothing"},
      {R"({"enum": []})", ErrorCode::kInvalidArgument, "enum"},
      {R"({"type": "string", "enum": [1]})", ErrorCode::kInvalidArgument, "nothing matches"},
      {R"({"type": "object", "properties": {}, "required": ["a"], "additionalProperties": false})",
       ErrorCode::kInvalidArgument, "requires 'a'"},
      {deep, ErrorCode::kLimit, "32 deep"},
      {std::string(60000, '['), ErrorCode::kInvalidArgument, "deep"},
      {many, ErrorCode::kLimit, ""},
      {"\"" + std::string(70000, 'a') + "\"", ErrorCode::kLimit, "65536"},
  };
  for (const Case& one : cases) {
    try {
      OfSchema(one.schema);
      ADD_FAILURE() << "taken: " << one.schema.substr(0, 200);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), one.code) << one.schema.substr(0, 200) << "\n" << error.what();
      EXPECT_NE(std::string(error.what()).find(one.part), std::string::npos) << error.what();
    }
  }
}

TEST(JsonSchema, NestedArraysDoNotDouble) {
  std::string schema;
  for (int i = 0; i < 15; ++i) schema += R"({"type":"array","minItems":2,"maxItems":50,"items":)";
  schema += R"({"type":"string","maxLength":500})" + std::string(15, '}');
  Acceptor acceptor = OfSchema(schema);
  EXPECT_LT(acceptor.machine().automaton()->states(), 20000);
}

/// Random schemas, and values made from them.
class RandomSchema {
 public:
  explicit RandomSchema(uint32_t seed) : random_(seed) {}

  Json Make(int depth) {
    switch (Below(depth == 0 ? 6 : 9)) {
      case 0: return {{"type", "boolean"}};
      case 1: return {{"type", "null"}};
      case 2: {
        const int low = Below(2000) - 1000;
        return {{"type", "integer"}, {"minimum", low}, {"maximum", low + Below(300)}};
      }
      case 3: {
        const double low = (Below(2000) - 1000) / 16.0;
        return {{"type", "number"}, {"minimum", low}, {"maximum", low + Below(100) / 8.0}};
      }
      case 4: {
        const int min = Below(4);
        return {{"type", "string"}, {"minLength", min}, {"maxLength", min + Below(4)}};
      }
      case 5: return {{"enum", {"x", 1, nullptr, "y\"z"}}};
      case 6: {
        const int min = Below(3);
        return {{"type", "array"},
                {"items", Make(depth - 1)},
                {"minItems", min},
                {"maxItems", min + Below(3)}};
      }
      case 7: return {{"anyOf", {Make(depth - 1), Make(depth - 1)}}};
      default: {
        Json schema = {
            {"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
        for (int i = 0; i < 1 + Below(3); ++i) {
          const std::string name(1, "abcd"[i]);
          schema["properties"][name] = Make(depth - 1);
          if (Below(2) == 0) schema["required"].push_back(name);
        }
        if (Below(3) == 0) {
          schema["additionalProperties"] = Make(depth - 1);
        } else {
          schema["additionalProperties"] = false;
        }
        return schema;
      }
    }
  }

  /// A value of a schema; now and then one that is not.
  Json Value(const Json& schema) {
    if (Below(25) == 0) return Below(2) == 0 ? Json(Below(5)) : Json("wrong");
    if (schema.contains("anyOf")) return Value(schema["anyOf"][static_cast<size_t>(Below(2))]);
    if (schema.contains("enum")) return schema["enum"][static_cast<size_t>(Below(4))];
    const std::string type = schema["type"];
    if (type == "boolean") return Below(2) == 0;
    if (type == "null") return nullptr;
    if (type == "integer") {
      const int low = schema["minimum"];
      return low + Below(schema["maximum"].get<int>() - low + 3) - 1;
    }
    if (type == "number") {
      const double low = schema["minimum"];
      return low + Below(110) / 100.0 * (schema["maximum"].get<double>() - low);
    }
    if (type == "string") {
      std::string text;
      for (int i = schema["minLength"].get<int>() + Below(5) - 1; i > 0; --i) {
        text += std::vector<std::string>{"a", "\"", "\n", "\u20ac",
                                         "\\"}[static_cast<size_t>(Below(5))];
      }
      return text;
    }
    if (type == "array") {
      Json list = Json::array();
      for (int i = schema["minItems"].get<int>() + Below(4) - 1; i > 0; --i) {
        list.push_back(Value(schema["items"]));
      }
      return list;
    }
    Json object = Json::object();
    for (const auto& [name, part] : schema["properties"].items()) {
      if (Below(3) > 0) object[name] = Value(part);
    }
    if (schema["additionalProperties"] != false && Below(2) == 0) {
      object["zz"] = Value(schema["additionalProperties"]);
    }
    return object;
  }

  /// Whether a value is right, by what the keywords mean.
  static bool IsValid(const Json& value, const Json& schema) {
    if (schema == false) return false;
    if (schema.contains("anyOf")) {
      return IsValid(value, schema["anyOf"][0]) || IsValid(value, schema["anyOf"][1]);
    }
    if (schema.contains("enum")) {
      for (const Json& one : schema["enum"]) {
        if (one == value) return true;
      }
      return false;
    }
    const std::string type = schema["type"];
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "integer" || type == "number") {
      const bool fits = type == "integer" ? value.is_number_integer() : value.is_number();
      return fits && value >= schema["minimum"] && value <= schema["maximum"];
    }
    if (type == "string") {
      if (!value.is_string()) return false;
      int length = 0;
      for (const char c : value.get<std::string>()) length += (c & 0xC0) != 0x80 ? 1 : 0;
      return length >= schema["minLength"] && length <= schema["maxLength"];
    }
    if (type == "array") {
      if (!value.is_array() || value.size() < schema["minItems"] ||
          value.size() > schema["maxItems"]) {
        return false;
      }
      for (const Json& item : value) {
        if (!IsValid(item, schema["items"])) return false;
      }
      return true;
    }
    if (!value.is_object()) return false;
    for (const Json& name : schema["required"]) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    for (const auto& [name, part] : value.items()) {
      const auto known = schema["properties"].find(name);
      const Json& its =
          known == schema["properties"].end() ? schema["additionalProperties"] : *known;
      if (!IsValid(part, its)) return false;
    }
    return true;
  }

  int Below(int most) { return static_cast<int>(random_() % static_cast<uint32_t>(most)); }

 private:
  std::mt19937 random_;
};

TEST(JsonSchema, TakesTheValuesThatAreValid) {
  int valid = 0;
  int invalid = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomSchema random(seed);
    const Json schema = random.Make(3);
    Acceptor acceptor = OfSchema(schema.dump());
    for (int i = 0; i < 15; ++i) {
      const Json value = random.Value(schema);
      const bool right = RandomSchema::IsValid(value, schema);
      for (const int indent : {-1, 1}) {
        const std::string text = value.dump(indent);
        ASSERT_EQ(acceptor.Takes(text), right) << schema.dump() << "\n" << text;
      }
      (right ? valid : invalid) += 1;
    }
  }
  EXPECT_GT(valid, 1000);
  EXPECT_GT(invalid, 500);
}

TEST(JsonSchema, WhateverItTakesIsValid) {
  int complete = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomSchema random(seed);
    const Json schema = random.Make(3);
    Acceptor acceptor = OfSchema(schema.dump());
    Machine& machine = acceptor.machine();
    std::string text;
    int32_t at = machine.Begin();
    // Bytes at random, of those that may follow; mostly such that lead to an end.
    for (int i = 0; i < 4000 && !(machine.complete(at) && random.Below(2) == 0); ++i) {
      std::vector<uint8_t> allowed;
      for (int byte = 0; byte < 256; ++byte) {
        if (machine.Step(at, static_cast<uint8_t>(byte)) != Machine::kDead) {
          allowed.push_back(static_cast<uint8_t>(byte));
        }
      }
      if (allowed.empty()) break;
      uint8_t byte = allowed[static_cast<size_t>(random.Below(static_cast<int>(allowed.size())))];
      for (const char ending : std::string("\"}]")) {
        const auto end = static_cast<uint8_t>(ending);
        if (random.Below(3) == 0 && std::ranges::find(allowed, end) != allowed.end()) byte = end;
      }
      text += static_cast<char>(byte);
      at = machine.Step(at, byte);
    }
    if (!machine.complete(at)) continue;
    ++complete;
    const Json value = Json::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << schema.dump() << "\n" << text;
    ASSERT_TRUE(RandomSchema::IsValid(value, schema)) << schema.dump() << "\n" << text;
  }
  EXPECT_GT(complete, 250);
}

}  // namespace
}  // namespace oort::grammar
