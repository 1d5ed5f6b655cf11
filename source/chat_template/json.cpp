// SPDX-License-Identifier: MIT
#include "chat_template/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/problems.h"
#include "text/python.h"
#include "text/utf8.h"

namespace oort::jinja {
namespace {

/// Builds values while nlohmann reads, which keeps the order of keys and large integers.
class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBuilder(Budget* budget, std::string_view what, bool user)
      : budget_(budget), what_(what), user_(user) {}

  bool null() override { return Add(Value::None()); }
  bool boolean(bool value) override { return Add(Value::Bool(value)); }
  bool number_integer(number_integer_t value) override { return Add(Value::Int(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(INT64_MAX))
      return Add(Value::Int(static_cast<int64_t>(value)));
    return Add(Value::BigInt(budget_, std::to_string(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == string_t::npos) return Add(Value::BigInt(budget_, text));
    return Add(Value::Float(value));
  }
  bool string(string_t& value) override { return Add(Text(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(std::make_shared<Dict>(budget_)); }
  bool start_array(size_t) override { return Open(nullptr); }
  bool key(string_t& name) override {
    levels_.back().key = name;
    return true;
  }
  bool end_object() override {
    std::shared_ptr<const Dict> dict = std::move(levels_.back().dict);
    levels_.pop_back();
    return Add(Value::Of(std::move(dict)));
  }
  bool end_array() override {
    std::vector<Value> items = std::move(levels_.back().items);
    levels_.pop_back();
    return Add(Value::List(budget_, std::move(items)));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    Fail(std::string(what_) + " is not valid JSON: " + std::string(WithoutTag(error.what())));
  }

  Value Take() { return std::move(result_); }

 private:
  struct Level {
    std::shared_ptr<Dict> dict;
    std::vector<Value> items;
    std::string key;
  };

  Value Text(std::string_view text) const {
    MarkedText marked;
    marked.Append(text, user_);
    return Value::String(budget_, std::move(marked));
  }
  bool Open(std::shared_ptr<Dict> dict) {
    if (levels_.size() >= static_cast<size_t>(kMaxNesting)) {
      FailLimit(std::string(what_) + " is nested too deeply");
    }
    levels_.push_back({std::move(dict), {}, {}});
    return true;
  }
  bool Add(Value value) {
    if (levels_.empty()) {
      result_ = std::move(value);
    } else if (levels_.back().dict) {
      levels_.back().dict->Set(Text(levels_.back().key), std::move(value));
    } else {
      levels_.back().items.push_back(std::move(value));
    }
    return true;
  }

  Budget* budget_;
  std::string_view what_;
  bool user_;
  std::vector<Level> levels_;
  Value result_;
};

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  void Write(const Value& value, size_t depth) {
    budget_.Step();
    if (text_.size() > kMaxWeight) FailLimit("a JSON text of the chat template is too long");
    switch (value.kind()) {
      case Kind::kNone: text_ += "null"; break;
      case Kind::kBool: text_ += value.AsBool() ? "true" : "false"; break;
      case Kind::kInt:
      case Kind::kBigInt: text_ += Repr(value); break;
      case Kind::kFloat: text_ += Number(value.AsDouble()); break;
      case Kind::kString: WriteString(value.str()); break;
      case Kind::kList:
      case Kind::kTuple: WriteList(value.sequence().items, depth); break;
      case Kind::kDict: WriteDict(value.dict(), depth); break;
      default: Fail("object of type " + std::string(TypeName(value)) + " is not JSON serializable");
    }
  }

  std::string Take() { return std::move(text_); }

 private:
  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return python::ReprFloat(value);
  }

  void Break(size_t depth) {
    if (!style_.indent) return;
    text_ += '\n';
    for (size_t i = 0; i < depth; ++i) text_ += *style_.indent;
  }

  void WriteList(const std::vector<Value>& items, size_t depth) {
    text_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_ += style_.item_separator;
      Break(depth + 1);
      Write(items[i], depth + 1);
    }
    if (!items.empty()) Break(depth);
    text_ += ']';
  }

  std::string Key(const Value& key) const {
    switch (key.kind()) {
      case Kind::kString: return key.str();
      case Kind::kNone: return "null";
      case Kind::kBool: return key.AsBool() ? "true" : "false";
      case Kind::kInt:
      case Kind::kBigInt: return Repr(key);
      case Kind::kFloat: return Number(key.AsDouble());
      default:
        Fail("keys must be str, int, float, bool or None, not " + std::string(TypeName(key)));
    }
  }

  void WriteDict(const Dict& dict, size_t depth) {
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [](auto a, auto b) { return Compare(a->first, b->first, "<") < 0; });
    }
    text_ += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_ += style_.item_separator;
      Break(depth + 1);
      WriteString(Key(items[i]->first));
      text_ += style_.key_separator;
      Write(items[i]->second, depth + 1);
    }
    if (!items.empty()) Break(depth);
    text_ += '}';
  }

  void WriteUnicodeEscape(char32_t unit) {
    text_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) text_ += "0123456789abcdef"[unit >> shift & 15];
  }

  void WriteString(std::string_view string) {
    budget_.Work(string.size());
    text_ += '"';
    for (size_t offset = 0; offset < string.size();) {
      const char32_t c = text::NextCodePoint(string, offset);
      switch (c) {
        case '"': text_ += "\\\""; break;
        case '\\': text_ += "\\\\"; break;
        case '\n': text_ += "\\n"; break;
        case '\r': text_ += "\\r"; break;
        case '\t': text_ += "\\t"; break;
        case '\f': text_ += "\\f"; break;
        case '\b': text_ += "\\b"; break;
        default:
          if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000)) {
            WriteUnicodeEscape(c);
          } else if (style_.ensure_ascii && c >= 0x10000) {
            WriteUnicodeEscape(0xD800 + ((c - 0x10000) >> 10));
            WriteUnicodeEscape(0xDC00 + ((c - 0x10000) & 0x3FF));
          } else {
            text::AppendUtf8(text_, c);
          }
      }
    }
    text_ += '"';
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string text_;
};

}  // namespace

Value ParseJson(Budget* budget, std::string_view json, std::string_view what, bool user) {
  if (!text::IsValidUtf8(json)) Fail(std::string(what) + " is not valid UTF-8");
  JsonBuilder builder(budget, what, user);
  nlohmann::json::sax_parse(json, &builder);
  return builder.Take();
}

std::string DumpJson(Budget& budget, const Value& value, const JsonStyle& style) {
  budget.Work(value.weight());
  JsonWriter writer(budget, style);
  writer.Write(value, 0);
  return writer.Take();
}

}  // namespace oort::jinja
