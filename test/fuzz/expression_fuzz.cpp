// SPDX-License-Identifier: MIT
// Any text as an expression of small operands of many kinds: an Error or a value, nothing else.
#include <string_view>
#include <vector>

#include "harness.h"
#include "layers/expression/engine.h"
#include "oort/layer.h"
#include "parser/expression/function.h"
#include "type_ring.h"

namespace {

using oort::DType;
using oort::Shape;
using oort::Tensor;
using oort::Value;

/// -2, -1.5, -1, … converted to the dtype.
Tensor Numbers(DType dtype, Shape shape) {
  Tensor wide(DType::kF64, shape);
  for (int64_t i = 0; i < wide.elements(); ++i) {
    wide.data<double>()[i] = -2 + 0.5 * static_cast<double>(i);
  }
  return wide.To(dtype);
}

/// `described`: one of them has no elements yet, as when a graph is built.
std::vector<Value> MakeOperands(bool described) {
  return {Numbers(DType::kF32, {2, 3}),
          Numbers(DType::kF32, {3}),
          Numbers(DType::kI64, {2, 1}),
          Numbers(DType::kBool, {2, 3}),
          Numbers(DType::kF16, {3}),
          Numbers(DType::kC64, {1, 3}),
          Numbers(DType::kI8, {}),
          Numbers(DType::kU8, {2, 3}),
          Numbers(DType::kF64, {0, 3}),
          described ? Tensor::Meta(DType::kI32, {1}) : Numbers(DType::kI32, {1}),
          Value(7),
          Value(-2.5),
          Value(),
          Value("word"),
          Value(Value::List{Value(1), Value(2)}),
          Value::Deferred()};
}

std::vector<const Value*> Pointers(const std::vector<Value>& values) {
  std::vector<const Value*> pointers;
  for (const Value& value : values) pointers.push_back(&value);
  return pointers;
}

/// Calls of functions by name, with arguments that may be calls themselves.
class CallGenerator {
 public:
  explicit CallGenerator(const std::vector<std::string>& names) : names_(names), ring_(names) {}
  const std::vector<std::string>& names() const { return names_; }

  std::string Generate(const std::string& name, oort::fuzz::Random& random, int depth = 0) const {
    const auto function = oort::expression::FindFunction(name);
    const bool known = function.has_value() && !random.OneIn(16);
    const size_t count =
        known ? static_cast<size_t>(oort::expression::Info(*function).arity) : 1 + random.Below(3);
    std::string text = name + "(";
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) text += ",";
      if (depth < 3 && random.OneIn(3)) {
        text += Generate(ring_.Pick(random), random, depth + 1);
      } else if (random.OneIn(3)) {
        text += random.Pick(kAtoms);
      } else {
        text += "@" + std::to_string(random.Below(16));
      }
    }
    return text + ")";
  }

 private:
  static constexpr const char* kAtoms[] = {
      "2",     "0",    "-1",    "1.5",   "inf",    "nan.0",
      "-inf",  "None", "True",  "False", "64",     "1e300",
      "[1,2]", "-0.0", "1e-45", "7",     "1e-300", "9223372036854775807",
      "@99",   "3.5",  "-63",   "1e19",  "-1e19",  "-9223372036854775808",
      "-2",    "-1.5", "word",  "[]",    "1j",     "1.5e+00-2.5e+00j"};

  std::vector<std::string> names_;
  oort::fuzz::TypeRing ring_;
};

}  // namespace

oort::fuzz::Target oort::fuzz::MakeTarget() {
  const auto names = oort::expression::FunctionNames();
  static const CallGenerator generator({names.begin(), names.end()});
  Target target;
  target.generators = generator.names();
  target.generate = [](const std::string& name, Random& random) {
    return generator.Generate(name, random);
  };
  return target;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Value> described = MakeOperands(true), computed = MakeOperands(false);
  static const std::vector<const Value*> shapes = Pointers(described),
                                         operands = Pointers(computed);
  // Longer texts only take longer.
  const std::string_view text(reinterpret_cast<const char*>(data), std::min<size_t>(size, 4096));
  try {
    const oort::expression::Engine engine(oort::expression::Parse(text), oort::DefaultIsa());
    const Value inferred = engine.Infer(shapes);
    if (inferred.IsDeferred()) return 0;
    Value output;
    if (inferred.IsTensor()) {
      output = Tensor(inferred.AsTensor().dtype(), inferred.AsTensor().shape());
    }
    engine.Forward(oort::Context(1, {}), operands, output);
    oort::fuzz::CountWhole();
  } catch (const oort::Error&) {
    // Refused, as it should be.
  }
  return 0;
}
