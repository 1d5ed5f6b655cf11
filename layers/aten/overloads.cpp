// SPDX-License-Identifier: MIT
#include "layers/aten/overloads.h"

#include <sstream>

namespace oort {
namespace {

struct AtenArg {
  char kind;  ///< as in AtenForm, ' ' for a parameter
  std::string name;
  bool IsOperand() const { return kind == '*' || kind == '+'; }
};

/// An overload, read.
struct Overload {
  explicit Overload(const AtenForm& form) : target(form.target) {
    std::istringstream words(form.arguments);
    for (std::string word; words >> word;) {
      if (const size_t at = word.find('='); at != std::string::npos) {
        fixed.emplace_back(word.substr(0, at), Parameter(word.substr(at + 1)).value());
        continue;
      }
      const bool marked = std::string_view("*+-!").find(word[0]) != std::string_view::npos;
      args.push_back({marked ? word[0] : ' ', marked ? word.substr(1) : word});
    }
  }
  std::string target;
  std::vector<AtenArg> args;
  std::vector<Decomposer::Argument> fixed;
};

/// An empty list is torch's way to say that nothing was given.
bool IsAbsent(const Value& value) {
  return value.IsNone() || (value.IsList() && value.AsList().empty());
}

const Overload& Choose(const std::vector<Overload>& overloads, const Args& args) {
  for (const Overload& overload : overloads) {
    const int count = static_cast<int>(overload.args.size());
    bool fits = overload.args.size() == args.inputs().size();
    for (int i = count; i < args.size(); ++i) fits = fits && !args.Has(i);
    if (fits) return overload;
  }
  return overloads.back();
}

std::vector<Value> CallTarget(const Decomposer& call, const Args& args, const Overload& overload) {
  std::vector<Decomposer::Argument> arguments = overload.fixed;
  for (size_t i = 0; i < overload.args.size(); ++i) {
    const AtenArg& arg = overload.args[i];
    if (arg.kind == '-') continue;
    const Value& given = args[static_cast<int>(i)];
    const Value value = arg.IsOperand() ? given : ParameterOf(given);
    if (IsAbsent(value)) continue;
    if (!arg.IsOperand() && HoldsDeferred(value)) {
      return std::vector<Value>(static_cast<size_t>(call.outputs()), Value::Deferred());
    }
    if (arg.kind != '!') {
      arguments.emplace_back(arg.kind == '+' ? "" : arg.name, value);
    } else if (value.AsBool()) {
      throw Error(ErrorCode::kUnsupported,
                  arg.name + "=True asks for what is done in training only");
    }
  }
  return call.All(overload.target, arguments, call.outputs());
}

}  // namespace

void AddAtenForm(LayerRegistry& registry, std::vector<std::string> types,
                 std::vector<AtenForm> forms, int min_outputs, int max_outputs) {
  const std::vector<Overload> overloads(forms.begin(), forms.end());
  const std::vector<AtenArg>& declared = overloads.back().args;
  OperatorSchema schema(std::move(types),
                        "`" + overloads.back().target + "`, its arguments in ATen's order");
  for (size_t i = 0; i < declared.size(); ++i) {
    const AtenArg& arg = declared[i];
    if (arg.kind == '*' && i == 0) {
      schema.Tensor(arg.name, kAllDTypes);
    } else if (arg.kind == '*') {
      schema.OptionalTensor(arg.name, kAllDTypes);
    } else if (arg.kind == '-') {
      schema.Ignored(arg.name).Dynamic();
    } else {
      schema.Any(arg.name).Nullable().Dynamic();
    }
  }
  schema.Outputs(min_outputs, max_outputs);
  AddDecomposition(registry, std::move(schema),
                   [overloads](const Decomposer& call, const Args& args) {
                     return CallTarget(call, args, Choose(overloads, args));
                   });
}

}  // namespace oort
