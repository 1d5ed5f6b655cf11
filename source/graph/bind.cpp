// SPDX-License-Identifier: MIT
// Matches the inputs, parameters and attributes of an operator with what its schema declares.
#include <algorithm>

#include "graph/bind_constants.h"
#include "graph/dtype_names.h"
#include "oort/schema.h"

namespace oort {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string RangeText(const ArgSpec& spec) {
  const auto number = [](double value) { return Value(value).ToString(); };
  if (spec.max == std::numeric_limits<double>::infinity()) return "at least " + number(spec.min);
  if (spec.min == -std::numeric_limits<double>::infinity()) return "at most " + number(spec.max);
  return "from " + number(spec.min) + " to " + number(spec.max);
}

void CheckNumber(const ArgSpec& spec, double number) {
  // Written so that NaN passes where there is no limit and fails where there is one.
  const bool bounded = spec.min > -std::numeric_limits<double>::infinity() ||
                       spec.max < std::numeric_limits<double>::infinity();
  if (bounded && !(number >= spec.min && number <= spec.max)) {
    throw Error(ErrorCode::kInvalidModel, "must be " + RangeText(spec));
  }
}

template <typename Number>
Value CheckList(const ArgSpec& spec, std::vector<Number> numbers, bool was_list) {
  if (spec.length >= 0 && numbers.size() != static_cast<size_t>(spec.length)) {
    // One number stands for all axes; so does a list of one.
    if (numbers.size() != 1) {
      throw Error(ErrorCode::kInvalidModel, "expected " + std::to_string(spec.length) +
                                                (was_list ? " elements" : " numbers"));
    }
    numbers.resize(static_cast<size_t>(spec.length), numbers.front());
  }
  Value::List list;
  for (Number number : numbers) {
    CheckNumber(spec, static_cast<double>(number));
    list.emplace_back(number);
  }
  return Value(std::move(list));
}

const Value& OnlyElement(const Value& value) {
  return value.IsList() && value.AsList().size() == 1 ? value.AsList().front() : value;
}

/// A value as the argument's type wants it; throws what is wrong with it.
Value Coerce(const ArgSpec& spec, const Value& value) {
  if (value.IsNone() && spec.nullable) return value;
  if (value.IsString() && !spec.choices.empty()) {
    if (std::find(spec.choices.begin(), spec.choices.end(), value.AsString()) !=
        spec.choices.end()) {
      return value;
    }
    throw Error(ErrorCode::kInvalidModel, "must be one of " + Join(spec.choices));
  }
  switch (spec.type) {
    case ArgType::kInt: {
      const int64_t number = OnlyElement(value).AsInt();
      CheckNumber(spec, static_cast<double>(number));
      return number;
    }
    case ArgType::kFloat: {
      const double number = OnlyElement(value).AsFloat();
      CheckNumber(spec, number);
      return number;
    }
    case ArgType::kIntList: return CheckList(spec, value.AsInts(), value.IsList());
    case ArgType::kFloatList: return CheckList(spec, value.AsFloats(), value.IsList());
    case ArgType::kBool: return value.AsBool();
    case ArgType::kString: return value.IsString() ? value : Value(value.ToString());
    case ArgType::kNumber:
      if (!value.IsNumber()) throw Error(ErrorCode::kInvalidModel, "expected a number");
      if (!value.IsComplex()) CheckNumber(spec, value.AsFloat());
      return value;
    case ArgType::kDType: {
      const DType dtype = ParseTorchDType(value);
      if (dtype == DType::kNull) throw Error(ErrorCode::kInvalidModel, "is no dtype");
      return std::string(Name(dtype));
    }
    case ArgType::kTensor:
      // Scalars may stand for tensors (`other=1`); layers that want elements ask for a tensor.
      if (value.IsNumber() || value.IsList()) return value;
      throw Error(ErrorCode::kInvalidModel, "expected a tensor or a number");
    case ArgType::kAny: return value;
  }
  return value;
}

class Binder {
 public:
  Binder(const OperatorSchema& schema, const Operator& op, std::vector<Problem>& problems)
      : schema_(schema), op_(op), problems_(problems), bound_(schema.args().size(), false) {
    result_.args.resize(schema.args().size());
  }

  BoundArgs Run() {
    BindAttributes();
    if (!schema_.free_inputs()) BindInputs();
    BindParameters();
    FillDefaults();
    CheckOutputs();
    return std::move(result_);
  }

 private:
  const ArgSpec& Spec(size_t index) const { return schema_.args()[index]; }

  void Report(ErrorCode code, const std::string& what) {
    problems_.push_back(
        {code, op_.Describe() + ": " + what, op_.FileName(), op_.FileType(), op_.line});
  }

  void Bind(size_t arg, BoundArg binding) {
    result_.args[arg] = std::move(binding);
    bound_[arg] = true;
  }

  void BindAttributes() {
    for (const auto& [name, tensor] : op_.attributes) {
      const int arg = schema_.Find("@" + name);
      if (arg < 0) {
        if (!schema_.open()) Report(ErrorCode::kUnsupported, "unknown attribute '@" + name + "'");
        continue;
      }
      const ArgSpec& spec = Spec(static_cast<size_t>(arg));
      if (!spec.dtypes.Contains(tensor.dtype())) {
        Report(ErrorCode::kUnsupported, "attribute '@" + name + "' has dtype " +
                                            std::string(Name(tensor.dtype())) +
                                            ", which it does not take");
      }
      Bind(static_cast<size_t>(arg), {-1, tensor});
    }
  }

  /// An argument named by `$name`: an ordinary one before an attribute of that name.
  int NamedArg(const std::string& name) const {
    if (name.empty()) return -1;
    for (const std::string& key : {name, "@" + name}) {
      const int arg = schema_.Find(key);
      if (arg >= 0 && !bound_[static_cast<size_t>(arg)] &&
          !Spec(static_cast<size_t>(arg)).variadic) {
        return arg;
      }
    }
    return -1;
  }

  void BindInputs() {
    std::vector<int> unnamed;
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      const int arg = NamedArg(i < op_.input_names.size() ? op_.input_names[i] : "");
      if (arg >= 0) {
        Bind(static_cast<size_t>(arg), {static_cast<int>(i), {}});
      } else {
        unnamed.push_back(static_cast<int>(i));
      }
    }
    BindSharedWeights(unnamed);
    BindByPosition(unnamed);
    if (!unnamed.empty()) {
      Report(ErrorCode::kUnsupported, "has " + std::to_string(op_.inputs.size()) + " inputs, " +
                                          std::to_string(unnamed.size()) +
                                          " more than it can take");
    }
  }

  /// pnnx passes a weight that several modules share as an extra input *before* the data, and
  /// may store it with the operator as well; what is stored is taken then.
  void BindSharedWeights(std::vector<int>& unnamed) {
    size_t data = 0;
    for (size_t arg = 0; arg < bound_.size(); ++arg) {
      const ArgSpec& spec = Spec(arg);
      if (spec.variadic) return;
      if (spec.type == ArgType::kTensor && !spec.attribute && !bound_[arg]) ++data;
    }
    size_t extra = unnamed.size() > data ? unnamed.size() - data : 0;
    const auto take = [&](size_t arg) {
      Bind(arg, {unnamed.front(), {}});
      unnamed.erase(unnamed.begin());
      --extra;
    };
    for (size_t arg = 0; arg < bound_.size() && extra > 0; ++arg) {
      if (Spec(arg).attribute && Spec(arg).required && !bound_[arg]) take(arg);
    }
    const size_t stored = std::min(extra, op_.attributes.size());
    unnamed.erase(unnamed.begin(), unnamed.begin() + static_cast<std::ptrdiff_t>(stored));
    extra -= stored;
    for (size_t arg = 0; arg < bound_.size() && extra > 0; ++arg) {
      if (Spec(arg).attribute && !bound_[arg]) take(arg);
    }
  }

  void BindByPosition(std::vector<int>& unnamed) {
    for (size_t arg = 0; arg < bound_.size() && !unnamed.empty(); ++arg) {
      const ArgSpec& spec = Spec(arg);
      if (spec.variadic) {
        result_.variadic = std::move(unnamed);
        unnamed.clear();
        bound_[arg] = true;
        return;
      }
      if (bound_[arg] || spec.attribute || op_.params.count(spec.name) != 0) continue;
      Bind(arg, {unnamed.front(), {}});
      unnamed.erase(unnamed.begin());
    }
  }

  void BindParameters() {
    for (const auto& [key, parameter] : op_.params) {
      const int found = schema_.Find(key);
      const size_t arg = static_cast<size_t>(std::max(found, 0));
      if (found < 0 || Spec(arg).attribute) {
        if (!schema_.open()) {
          Report(ErrorCode::kUnsupported,
                 "unknown parameter " + key + "=" + parameter.text().substr(0, 80));
        }
        continue;
      }
      if (bound_[arg]) continue;  // an input of that name takes precedence
      BindParameter(arg, parameter);
    }
  }

  void BindParameter(size_t arg, const Parameter& parameter) {
    const ArgSpec& spec = Spec(arg);
    bound_[arg] = true;
    try {
      const bool raw = spec.type == ArgType::kString && parameter.text() != "None";
      const Value value = raw ? Value(parameter.text()) : parameter.value();
      result_.args[arg].value = Coerce(spec, value);
    } catch (const Error& error) {
      std::string text = parameter.text().substr(0, 80);
      Report(ErrorCode::kInvalidModel, "parameter " + spec.name + "=" + text + ": " + error.what());
    }
  }

  void FillDefaults() {
    for (size_t arg = 0; arg < bound_.size(); ++arg) {
      if (bound_[arg]) continue;
      const ArgSpec& spec = Spec(arg);
      if (!spec.required) {
        result_.args[arg].value = spec.fallback.IsNone() ? Value() : Coerce(spec, spec.fallback);
        continue;
      }
      if (schema_.free_inputs() && !spec.attribute && spec.type == ArgType::kTensor) continue;
      const char* kind = spec.attribute                  ? "attribute '@"
                         : spec.type == ArgType::kTensor ? "input '"
                                                         : "parameter '";
      Report(ErrorCode::kInvalidModel, kind + spec.name + "' is missing");
    }
  }

  void CheckOutputs() {
    const int count = static_cast<int>(op_.outputs.size());
    const bool too_many = schema_.max_outputs() >= 0 && count > schema_.max_outputs();
    if (count < schema_.min_outputs() || too_many) {
      Report(ErrorCode::kInvalidModel,
             "has " + std::to_string(count) + " outputs, expected " +
                 std::to_string(schema_.min_outputs()) +
                 (too_many || schema_.max_outputs() != schema_.min_outputs()
                      ? " to " + std::to_string(schema_.max_outputs())
                      : ""));
    }
  }

  const OperatorSchema& schema_;
  const Operator& op_;
  std::vector<Problem>& problems_;
  std::vector<bool> bound_;
  BoundArgs result_;
};

}  // namespace

BoundArgs BindArguments(const OperatorSchema& schema, const Operator& op,
                        std::vector<Problem>& problems) {
  return Binder(schema, op, problems).Run();
}

void BindConstants(const OperatorSchema& schema, std::span<const Value> constant_inputs,
                   BoundArgs& bound) {
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const ArgSpec& spec = schema.args()[i];
    BoundArg& arg = bound.args[i];
    if (arg.input < 0 || spec.type == ArgType::kTensor || spec.type == ArgType::kAny) continue;
    const Value& value = constant_inputs[static_cast<size_t>(arg.input)];
    // A tensor is for the layer to read, None for its default; where a text may also be given as
    // values, they are as good as they are.
    if (!value.IsConcrete() || value.IsTensor() || value.IsNone()) continue;
    if (spec.type == ArgType::kString && !value.IsString()) continue;
    try {
      arg = {-1, Coerce(spec, value)};
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvalidModel,
                  "parameter " + spec.name + "=" + value.ToString() + ": " + error.what());
    }
  }
}

}  // namespace oort
