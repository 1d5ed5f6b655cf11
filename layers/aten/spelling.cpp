// SPDX-License-Identifier: MIT
#include "layers/aten/spelling.h"

#include <algorithm>
#include <optional>
#include <sstream>

namespace oort {
namespace {

struct SpelledArg {
  char kind;  ///< as in Spelling, ' ' for a parameter
  std::string name;
};

struct SpelledForm {
  explicit SpelledForm(const Spelling& spelling) : target(spelling.target) {
    std::istringstream words(spelling.arguments);
    for (std::string word; words >> word;) {
      if (const size_t at = word.find('='); at != std::string::npos) {
        fixed[word.substr(0, at)] = word.substr(at + 1);
        continue;
      }
      const bool marked = std::string_view("*+-!").find(word[0]) != std::string_view::npos;
      args.push_back({marked ? word[0] : ' ', marked ? word.substr(1) : word});
    }
  }
  std::string target;
  std::vector<SpelledArg> args;
  std::map<std::string, std::string> fixed;
};

bool IsOperand(const SpelledArg& arg) { return arg.kind == '*' || arg.kind == '+'; }

/// An empty list is torch's way to say that nothing was given.
bool IsAbsent(const Value& value) {
  return value.IsNone() || (value.IsList() && value.AsList().empty());
}

/// What is dropped need not be known.
Value SpelledParameter(const SpelledArg& arg, const Value& value) {
  return arg.kind == '-' ? Value() : ParameterOf(value);
}

class SpellingLayer final : public CompositeLayer {
 public:
  SpellingLayer(const LayerInit& init, SpelledForm form, const std::vector<SpelledArg>& declared)
      : form_(std::move(form)), make_(init), outputs_(static_cast<int>(init.outputs().size())) {
    std::vector<Value> values;
    bool known = true;
    for (size_t i = 0; i < form_.args.size(); ++i) {
      const std::string& name = declared[i].name;
      values.push_back(init.IsConstant(name) ? init.Constant(name) : Value::Deferred());
      if (IsOperand(form_.args[i])) continue;
      values.back() = SpelledParameter(form_.args[i], values.back());
      known = known && !values.back().IsDeferred();
    }
    if (!known) return;
    part_.emplace(Make(values));
    for (size_t i = 0; i < values.size(); ++i) {
      if (IsOperand(form_.args[i]) && !IsAbsent(values[i])) ++part_operands_;
    }
  }

 protected:
  std::vector<Value> Compute(const Steps& steps, const Args& args) const override {
    std::vector<Value> values, operands;
    for (int i = 0; i < static_cast<int>(form_.args.size()); ++i) {
      const bool operand = IsOperand(form_.args[static_cast<size_t>(i)]);
      values.push_back(operand ? args[i]
                               : SpelledParameter(form_.args[static_cast<size_t>(i)], args[i]));
      if (operand && !IsAbsent(args[i])) operands.push_back(args[i]);
    }
    const bool waits =
        std::any_of(values.begin(), values.end(), [](const Value& v) { return v.IsDeferred(); });
    if (waits) return std::vector<Value>(static_cast<size_t>(outputs_), Value::Deferred());
    if (part_ && operands.size() == part_operands_) return steps.All(*part_, operands);
    // The part's constants would be those of this call.
    for (size_t i = 0; i < values.size(); ++i) {
      if (IsOperand(form_.args[i]) && !IsAbsent(values[i])) values[i] = Value::Deferred();
    }
    return steps.All(Make(values), operands);
  }

 private:
  Part Make(const std::vector<Value>& values) const {
    Part::Spec spec{.type = form_.target, .inputs = {}, .params = form_.fixed};
    spec.outputs = outputs_;
    for (size_t i = 0; i < values.size(); ++i) {
      const SpelledArg& arg = form_.args[i];
      if (IsAbsent(values[i])) continue;
      if (IsOperand(arg)) {
        spec.inputs.push_back(arg.kind == '+' ? "" : arg.name);
        spec.constants.push_back(values[i]);
      } else if (arg.kind == ' ') {
        spec.params[arg.name] = values[i].ToString();
      } else if (values[i].AsBool()) {
        throw Error(ErrorCode::kUnsupported,
                    arg.name + "=True asks for what is done in training only");
      }
    }
    return make_(std::move(spec));
  }

  SpelledForm form_;
  PartMaker make_;
  int outputs_;
  std::optional<Part> part_;  // where all parameters are known at load
  size_t part_operands_ = 0;  // an optional tensor may turn out to be None
};

const SpelledForm& Choose(const std::vector<SpelledForm>& forms, const Operator& op) {
  for (const SpelledForm& form : forms) {
    if (op.params.empty() && form.args.size() == op.inputs.size()) return form;
  }
  return forms.back();
}

}  // namespace

PartMaker::PartMaker(const LayerInit& init) : isa_(init.isa()), device_(init.device()) {
  op_.type = init.type();
  op_.name = init.op().name;
  op_.line = init.op().line;
}

Part PartMaker::operator()(Part::Spec spec) const {
  const OperatorSchema schema({op_.type}, "");
  const BoundArgs bound;
  return Part(LayerInit(op_, schema, bound, {}, isa_, {}, {}, device_), std::move(spec));
}

Value ParameterOf(const Value& value) {
  if (value.IsList()) {
    Value::List items;
    for (const Value& item : value.AsList()) {
      items.push_back(ParameterOf(item));
      if (items.back().IsDeferred()) return Value::Deferred();
    }
    return Value(std::move(items));
  }
  if (!value.IsTensor()) return value;
  const Tensor& tensor = value.AsTensor();
  if (tensor.elements() != 1) {
    throw Error(ErrorCode::kInvalidArgument, "expected a number, got " + tensor.ToString());
  }
  if (!tensor.has_data()) return Value::Deferred();
  if (tensor.dtype() == DType::kBool) return Value(tensor.Item() != 0);
  if (IsInteger(tensor.dtype())) return Value(tensor.To(DType::kI64).data<int64_t>()[0]);
  return Value(tensor.Item());
}

void AddSpelling(LayerRegistry& registry, std::vector<std::string> types,
                 std::vector<Spelling> overloads, int min_outputs, int max_outputs) {
  std::vector<SpelledForm> forms(overloads.begin(), overloads.end());
  const std::vector<SpelledArg>& declared = forms.back().args;
  OperatorSchema schema(std::move(types),
                        "`" + forms.back().target + "`, its arguments in ATen's order");
  for (size_t i = 0; i < declared.size(); ++i) {
    const auto& [kind, name] = declared[i];
    if (kind == '*' && i == 0) {
      schema.Tensor(name, kAllDTypes);
    } else if (kind == '*') {
      schema.OptionalTensor(name, kAllDTypes);
    } else if (kind == '-') {
      schema.Ignored(name).Dynamic();
    } else {
      schema.Any(name).Nullable().Dynamic();
    }
  }
  schema.Outputs(min_outputs, max_outputs);
  registry.Add(std::move(schema), [forms](const LayerInit& init) {
    return std::make_unique<SpellingLayer>(init, Choose(forms, init.op()), forms.back().args);
  });
}

}  // namespace oort
