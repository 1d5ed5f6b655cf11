// SPDX-License-Identifier: MIT
#include <optional>

#include "core/number_text.h"
#include "oort/graph.h"

namespace oort {
namespace {

// pnnx nests lists two deep; what is deeper comes from a broken file and stays a string.
constexpr int kMaxDepth = 16;

std::optional<Value> ParseList(std::string_view text, int depth);

std::optional<Value> ParseValue(std::string_view text, int depth) {
  if (text == "None") return Value();
  if (text == "True") return Value(true);
  if (text == "False") return Value(false);
  if (!text.empty() && (text.front() == '(' || text.front() == '[')) {
    return ParseList(text, depth);
  }
  if (const auto value = ParseInt(text)) return Value(*value);
  if (const auto value = ParseFloat(text)) return Value(*value);
  if (const auto value = ParseComplex(text)) return Value(*value);
  return Value(std::string(text));
}

/// "(a,b)" or "[a,[b,c]]"; nothing where brackets do not match or an element is empty.
std::optional<Value> ParseList(std::string_view text, int depth) {
  const char close = text.front() == '(' ? ')' : ']';
  if (depth == kMaxDepth || text.size() < 2 || text.back() != close) return {};
  text = text.substr(1, text.size() - 2);
  Value::List list;
  if (text.empty()) return Value(std::move(list));
  int64_t open = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '(' || c == '[') ++open;
    if (c == ')' || c == ']') --open;
    if (open < 0) return {};
    if (c != ',' || (open > 0 && i < text.size())) continue;
    if (open > 0 || i == begin) return {};
    auto element = ParseValue(text.substr(begin, i - begin), depth + 1);
    if (!element) return {};
    list.push_back(std::move(*element));
    begin = i + 1;
  }
  return Value(std::move(list));
}

}  // namespace

Value Parameter::value() const {
  if (auto value = ParseValue(text_, 0)) return std::move(*value);
  return Value(text_);
}

}  // namespace oort
