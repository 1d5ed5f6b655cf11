// SPDX-License-Identifier: MIT
#include "oort/value.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/number_text.h"

namespace oort {
namespace {

[[noreturn]] void ThrowKind(const Value& value, const char* expected) {
  throw Error(ErrorCode::kInvalidArgument,
              std::string("expected ") + expected + ", got " + value.KindName());
}

}  // namespace

Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Value Value::Ints(std::span<const int64_t> values) {
  List list;
  list.reserve(values.size());
  for (int64_t v : values) list.emplace_back(v);
  return Value(std::move(list));
}

bool Value::IsConcrete() const {
  if (IsDeferred()) return false;
  if (const Tensor* tensor = std::get_if<Tensor>(&content_)) return tensor->has_data();
  if (const List* list = std::get_if<List>(&content_)) {
    return std::all_of(list->begin(), list->end(), [](const Value& v) { return v.IsConcrete(); });
  }
  return true;
}

bool Value::AsBool() const {
  if (const bool* value = std::get_if<bool>(&content_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&content_)) {
    if (*value == 0 || *value == 1) return *value != 0;
  }
  if (IsTensor() && AsTensor().elements() == 1 && AsTensor().has_data()) {
    return AsTensor().Item() != 0;
  }
  ThrowKind(*this, "a bool");
}

int64_t Value::AsInt() const {
  if (const int64_t* value = std::get_if<int64_t>(&content_)) return *value;
  if (const bool* value = std::get_if<bool>(&content_)) return *value ? 1 : 0;
  if (const Tensor* tensor = std::get_if<Tensor>(&content_)) {
    const bool integral = IsInteger(tensor->dtype()) || tensor->dtype() == DType::kBool;
    if (integral && tensor->elements() == 1 && tensor->has_data()) {
      if (tensor->dtype() == DType::kI64) return *tensor->data<int64_t>();
      return static_cast<int64_t>(tensor->Item());
    }
  }
  ThrowKind(*this, "an int");
}

double Value::AsFloat() const {
  if (const double* value = std::get_if<double>(&content_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&content_)) return static_cast<double>(*value);
  if (const bool* value = std::get_if<bool>(&content_)) return *value ? 1 : 0;
  if (const Tensor* tensor = std::get_if<Tensor>(&content_)) {
    if (tensor->elements() == 1 && tensor->has_data()) return tensor->Item();
  }
  ThrowKind(*this, "a number");
}

std::complex<double> Value::AsComplex() const {
  if (const auto* value = std::get_if<std::complex<double>>(&content_)) return *value;
  return AsFloat();
}

const std::string& Value::AsString() const {
  if (const std::string* value = std::get_if<std::string>(&content_)) return *value;
  ThrowKind(*this, "a string");
}

const Tensor& Value::AsTensor() const {
  if (const Tensor* value = std::get_if<Tensor>(&content_)) return *value;
  ThrowKind(*this, "a tensor");
}
Tensor& Value::AsTensor() { return const_cast<Tensor&>(std::as_const(*this).AsTensor()); }

const Value::List& Value::AsList() const {
  if (const List* value = std::get_if<List>(&content_)) return *value;
  ThrowKind(*this, "a list");
}
Value::List& Value::AsList() { return const_cast<List&>(std::as_const(*this).AsList()); }

std::vector<int64_t> Value::AsInts() const {
  if (!IsList()) return {AsInt()};
  std::vector<int64_t> ints;
  ints.reserve(AsList().size());
  for (const Value& value : AsList()) ints.push_back(value.AsInt());
  return ints;
}

std::vector<double> Value::AsFloats() const {
  if (!IsList()) return {AsFloat()};
  std::vector<double> floats;
  floats.reserve(AsList().size());
  for (const Value& value : AsList()) floats.push_back(value.AsFloat());
  return floats;
}

std::string Value::KindName() const {
  if (IsNone()) return "None";
  if (IsBool()) return "bool " + ToString();
  if (IsInt()) return "int " + ToString();
  if (IsFloat()) return "float " + ToString();
  if (IsComplex()) return "complex " + ToString();
  if (IsString()) return "string '" + AsString() + "'";
  if (IsTensor()) return "a tensor " + AsTensor().ToString();
  if (IsList()) return "list " + ToString();
  return "a value that is not known yet";
}

std::string Value::ToString() const {
  if (IsNone()) return "None";
  if (IsBool()) return std::get<bool>(content_) ? "True" : "False";
  if (IsInt()) return std::to_string(std::get<int64_t>(content_));
  if (IsFloat()) return FormatFloat(std::get<double>(content_));
  if (IsComplex()) return FormatComplex(std::get<std::complex<double>>(content_));
  if (IsString()) return AsString();
  if (IsTensor()) return AsTensor().ToString();
  if (IsDeferred()) return "?";
  std::string text = "(";
  for (size_t i = 0; i < AsList().size(); ++i) {
    if (i > 0) text += ',';
    text += AsList()[i].ToString();
  }
  return text + ")";
}

}  // namespace oort
