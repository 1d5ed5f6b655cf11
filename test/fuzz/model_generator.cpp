// SPDX-License-Identifier: MIT
#include "model_generator.h"

#include <algorithm>

#include "values.h"

namespace oort::fuzz {
namespace {

/// One model.
class ModelText {
 public:
  ModelText(const LayerRegistry& registry, const TypeRing& types, Random& random)
      : registry_(registry), types_(types), random_(random) {
    // Extents are drawn from few numbers, so that those of different tensors often agree.
    for (std::string& extent : extents_) extent = SmallExtent(random_);
    rank_ = random_.Below(6);
  }

  std::string Generate(const std::string& type) {
    Add(type);
    while (random_.OneIn(4)) Add(types_.Pick(random_));
    lines_ += "pnnx.Output out " + std::to_string(last_.size()) + " 0";
    for (const std::string& operand : last_) lines_ += " " + operand;
    return "7767517\n" + std::to_string(operators_ + 1) + " " + std::to_string(operands_) + "\n" +
           lines_ + "\n";
  }

 private:
  std::string NewOperand() { return std::to_string(operands_++); }

  /// `key=value` for the operator, after its operands.
  void AddParam(const std::string& key, const std::string& value) {
    params_ += " " + key + "=" + value;
  }
  void AddInput(const ArgSpec* arg, const std::string& operand) {
    inputs_.push_back(operand);
    if (arg != nullptr && named_) params_ += " $" + arg->name + "=" + operand;
  }

  void Add(const std::string& type) {
    const OperatorSchema& schema = *registry_.Schema(type);
    inputs_.clear();
    params_.clear();
    named_ = random_.OneIn(2);
    const bool leftover = type.starts_with("aten::");  // takes parameters as operands
    for (const ArgSpec& arg : schema.args()) AddArgument(arg, leftover);
    if (schema.free_inputs()) {
      for (size_t i = 1 + random_.Below(3); i > 0; --i) AddInput(nullptr, Operand(nullptr));
    }
    last_.clear();
    const int more = schema.max_outputs() < 0 ? 3 : schema.max_outputs() - schema.min_outputs();
    const int outputs =
        schema.min_outputs() + static_cast<int>(random_.Below(static_cast<size_t>(more + 1)));
    for (int i = 0; i < outputs; ++i) last_.push_back(NewOperand());
    lines_ += type + " op" + std::to_string(operators_++) + " " + std::to_string(inputs_.size()) +
              " " + std::to_string(outputs);
    for (const std::string& operand : inputs_) lines_ += " " + operand;
    for (const std::string& operand : last_) lines_ += " " + operand;
    lines_ += params_ + "\n";
  }

  void AddArgument(const ArgSpec& arg, bool leftover) {
    const bool present = arg.required || !random_.OneIn(2);
    if (arg.ignored || (!present && !leftover)) return;
    if (arg.attribute && !random_.OneIn(16)) {
      AddParam("@" + arg.name, TensorText(arg.dtypes));
    } else if (arg.variadic) {
      for (size_t i = random_.Below(4); i > 0; --i) AddInput(nullptr, Operand(&arg));
    } else if (arg.type == ArgType::kTensor) {
      AddInput(&arg, present ? Operand(&arg) : Constant("None"));
    } else if (leftover ? !random_.OneIn(8) : random_.OneIn(16)) {
      AddInput(&arg, Constant(present ? AnyValue(arg, '[', ']') : "None"));
    } else if (arg.dynamic && random_.OneIn(8)) {
      AddInput(&arg, random_.OneIn(2) ? Constant(AnyValue(arg, '[', ']')) : Operand(nullptr));
    } else {
      AddParam(arg.name, AnyValue(arg, '(', ')'));
    }
  }

  /// What was computed last, or a new input of the model.
  std::string Operand(const ArgSpec* arg) {
    if (!last_.empty() && (inputs_.empty() || random_.OneIn(4))) return random_.Pick(last_);
    const std::string operand = NewOperand();
    const std::string text = TensorText(arg == nullptr ? DTypeSet() : arg->dtypes);
    lines_ += "pnnx.Input in" + std::to_string(operators_++) + " 0 1 " + operand + " #" + operand +
              "=" + text + "\n";
    return operand;
  }
  /// An Expression without inputs.
  std::string Constant(const std::string& value) {
    const std::string operand = NewOperand();
    lines_ += "pnnx.Expression e" + std::to_string(operators_++) + " 0 1 " + operand +
              " expr=" + value + "\n";
    return operand;
  }

  std::string TensorText(DTypeSet dtypes) {
    std::string text = "(";
    const size_t rank = random_.OneIn(2) ? rank_ : random_.Below(5);
    const bool same = random_.OneIn(2);
    for (size_t i = 0; i < rank; ++i) {
      text += (i == 0 ? "" : ",") + (same ? extents_[i] : random_.Pick(extents_));
    }
    std::string dtype = "f32";
    if (!dtypes.Contains(DType::kF32) || random_.OneIn(4)) {
      do {
        dtype = AnyDType(random_);
      } while (!dtypes.empty() && !dtypes.Contains(ParseDType(dtype)) && !random_.OneIn(64));
    }
    return text + ")" + dtype;
  }

  std::string AnyNumber(const ArgSpec& arg) {
    if (random_.OneIn(10)) return ExtremeNumber(random_);
    if (random_.OneIn(3)) return random_.Pick(extents_);
    if (arg.type == ArgType::kFloat && random_.OneIn(2)) return random_.OneIn(2) ? "0.5" : "1e-5";
    const std::string number = SmallNumber(random_);
    return arg.min >= 0 && number[0] == '-' ? number.substr(1) : number;
  }

  std::string AnyList(const ArgSpec& arg, char open, char close) {
    const size_t length =
        arg.length >= 0 && !random_.OneIn(16) ? static_cast<size_t>(arg.length) : random_.Below(6);
    std::string list(1, open);
    for (size_t i = 0; i < length; ++i) list += (i == 0 ? "" : ",") + AnyNumber(arg);
    return list + close;
  }

  std::string AnyValue(const ArgSpec& arg, char open, char close) {
    if (arg.nullable && random_.OneIn(4)) return "None";
    if (!arg.choices.empty() && !random_.OneIn(16)) return random_.Pick(arg.choices);
    if (random_.OneIn(32)) return AnyWord(random_);
    switch (arg.type) {
      case ArgType::kInt:
      case ArgType::kFloat:
      case ArgType::kNumber: return AnyNumber(arg);
      case ArgType::kIntList:
      case ArgType::kFloatList:
        return random_.OneIn(4) ? AnyNumber(arg) : AnyList(arg, open, close);
      case ArgType::kBool: return random_.OneIn(2) ? "True" : "False";
      case ArgType::kDType: {
        static constexpr const char* kNames[] = {
            "torch.float", "torch.double",   "torch.half",      "torch.long", "torch.int",
            "torch.bool",  "torch.bfloat16", "torch.complex64", "torch.uint8"};
        return random_.Pick(kNames);
      }
      default: break;
    }
    return random_.OneIn(2)   ? AnyWord(random_)
           : random_.OneIn(2) ? AnyNumber(arg)
                              : AnyList(arg, open, close);
  }

  const LayerRegistry& registry_;
  const TypeRing& types_;
  Random& random_;
  std::string extents_[5];
  size_t rank_ = 0;
  std::string lines_, params_;
  std::vector<std::string> inputs_, last_;
  bool named_ = true;
  int operators_ = 0, operands_ = 0;
};

}  // namespace

std::string ModelGenerator::Generate(const std::string& type, Random& random) const {
  return ModelText(registry_, types_, random).Generate(type);
}

}  // namespace oort::fuzz
