// SPDX-License-Identifier: MIT
#include "oort/schema.h"

#include <algorithm>

namespace oort {

std::string_view Name(ArgType type) {
  switch (type) {
    case ArgType::kTensor: return "tensor";
    case ArgType::kInt: return "int";
    case ArgType::kIntList: return "ints";
    case ArgType::kFloat: return "float";
    case ArgType::kFloatList: return "floats";
    case ArgType::kBool: return "bool";
    case ArgType::kString: return "string";
    case ArgType::kNumber: return "number";
    case ArgType::kDType: return "dtype";
    case ArgType::kAny: return "any";
  }
  return "any";
}

std::string_view Name(Trait trait) {
  switch (trait) {
    case Trait::kRandom: return "random";
    case Trait::kElementwise: return "elementwise";
    case Trait::kProduct: return "product";
    case Trait::kKeepsDType: return "keeps dtype";
    case Trait::kF16OnCpu: return "f16 on the CPU";
  }
  return "";
}

OperatorSchema::OperatorSchema(std::vector<std::string> types, std::string doc)
    : types_(std::move(types)), doc_(std::move(doc)) {}

OperatorSchema::OperatorSchema(const OperatorSchema&) = default;
OperatorSchema::OperatorSchema(OperatorSchema&&) noexcept = default;
OperatorSchema& OperatorSchema::operator=(const OperatorSchema&) = default;
OperatorSchema& OperatorSchema::operator=(OperatorSchema&&) noexcept = default;
OperatorSchema::~OperatorSchema() = default;

ArgSpec& OperatorSchema::Add(std::string name, ArgType type) {
  ArgSpec& spec = args_.emplace_back();
  spec.name = std::move(name);
  spec.type = type;
  return spec;
}

ArgSpec& OperatorSchema::AddParam(std::string name, ArgType type, std::optional<Value> fallback) {
  ArgSpec& spec = Add(std::move(name), type);
  spec.required = !fallback.has_value();
  if (fallback) spec.fallback = std::move(*fallback);
  return spec;
}

OperatorSchema& OperatorSchema::Tensor(std::string name, DTypeSet dtypes) {
  ArgSpec& spec = Add(std::move(name), ArgType::kTensor);
  spec.dtypes = dtypes;
  spec.dynamic = true;
  return *this;
}

OperatorSchema& OperatorSchema::OptionalTensor(std::string name, DTypeSet dtypes) {
  Tensor(std::move(name), dtypes);
  return Nullable();
}

OperatorSchema& OperatorSchema::Tensors(std::string name, DTypeSet dtypes) {
  Tensor(std::move(name), dtypes);
  args_.back().variadic = true;
  args_.back().required = false;
  return *this;
}

OperatorSchema& OperatorSchema::Attribute(std::string name, DTypeSet dtypes) {
  ArgSpec& spec = Add(std::move(name), ArgType::kTensor);
  spec.dtypes = dtypes;
  spec.attribute = true;
  return *this;
}

OperatorSchema& OperatorSchema::OptionalAttribute(std::string name, DTypeSet dtypes) {
  Attribute(std::move(name), dtypes);
  return Nullable();
}

OperatorSchema& OperatorSchema::Int(std::string name, std::optional<int64_t> fallback) {
  AddParam(std::move(name), ArgType::kInt,
           fallback ? std::optional<Value>(*fallback) : std::nullopt);
  return *this;
}

OperatorSchema& OperatorSchema::Ints(std::string name, int length, std::optional<Value> fallback) {
  AddParam(std::move(name), ArgType::kIntList, std::move(fallback)).length = length;
  return *this;
}

OperatorSchema& OperatorSchema::Float(std::string name, std::optional<double> fallback) {
  AddParam(std::move(name), ArgType::kFloat,
           fallback ? std::optional<Value>(*fallback) : std::nullopt);
  return *this;
}

OperatorSchema& OperatorSchema::Floats(std::string name, int length,
                                       std::optional<Value> fallback) {
  AddParam(std::move(name), ArgType::kFloatList, std::move(fallback)).length = length;
  return *this;
}

OperatorSchema& OperatorSchema::Bool(std::string name, std::optional<bool> fallback) {
  AddParam(std::move(name), ArgType::kBool,
           fallback ? std::optional<Value>(*fallback) : std::nullopt);
  return *this;
}

OperatorSchema& OperatorSchema::String(std::string name, std::optional<std::string> fallback) {
  AddParam(std::move(name), ArgType::kString,
           fallback ? std::optional<Value>(std::move(*fallback)) : std::nullopt);
  return *this;
}

OperatorSchema& OperatorSchema::Number(std::string name, std::optional<Value> fallback) {
  AddParam(std::move(name), ArgType::kNumber, std::move(fallback));
  return *this;
}

OperatorSchema& OperatorSchema::DTypeName(std::string name, std::optional<Value> fallback) {
  AddParam(std::move(name), ArgType::kDType, std::move(fallback));
  return *this;
}

OperatorSchema& OperatorSchema::Any(std::string name, std::optional<Value> fallback) {
  AddParam(std::move(name), ArgType::kAny, std::move(fallback));
  return *this;
}

OperatorSchema& OperatorSchema::Ignored(std::string name) {
  AddParam(std::move(name), ArgType::kAny, Value());
  args_.back().ignored = true;
  return *this;
}

OperatorSchema& OperatorSchema::Nullable() {
  args_.back().nullable = true;
  args_.back().required = false;
  return *this;
}

OperatorSchema& OperatorSchema::Dynamic() {
  args_.back().dynamic = true;
  return *this;
}

OperatorSchema& OperatorSchema::AtLeast(double min) {
  args_.back().min = min;
  return *this;
}

OperatorSchema& OperatorSchema::AtMost(double max) {
  args_.back().max = max;
  return *this;
}

OperatorSchema& OperatorSchema::OneOf(std::vector<std::string> choices) {
  args_.back().choices = std::move(choices);
  return *this;
}

OperatorSchema& OperatorSchema::Outputs(int min, int max) {
  min_outputs_ = min;
  max_outputs_ = max;
  return *this;
}

OperatorSchema& OperatorSchema::State(Trait trait, OperatorTest when) {
  traits_.push_back({trait, when});
  return *this;
}

OperatorSchema& OperatorSchema::HasNhwcForm(std::string type,
                                            NhwcRole (*role)(const Operator& op, int rank)) {
  nhwc_form_ = {std::move(type), role};
  return *this;
}

bool OperatorSchema::Has(Trait trait) const {
  return std::any_of(traits_.begin(), traits_.end(),
                     [&](const StatedTrait& stated) { return stated.trait == trait; });
}

bool OperatorSchema::Has(Trait trait, const Operator& op) const {
  return std::any_of(traits_.begin(), traits_.end(), [&](const StatedTrait& stated) {
    return stated.trait == trait && (stated.when == nullptr || stated.when(op));
  });
}

OperatorSchema& OperatorSchema::FreeInputs() {
  free_inputs_ = true;
  return *this;
}

OperatorSchema& OperatorSchema::Open() {
  open_ = true;
  return *this;
}

int OperatorSchema::Find(std::string_view name) const {
  const bool attribute_only = !name.empty() && name.front() == '@';
  const std::string_view bare = attribute_only ? name.substr(1) : name;
  int found = -1;
  for (size_t i = 0; i < args_.size(); ++i) {
    if (args_[i].name != bare) continue;
    if (args_[i].attribute == attribute_only) return static_cast<int>(i);
    if (!attribute_only) found = static_cast<int>(i);
  }
  return found;
}

}  // namespace oort
