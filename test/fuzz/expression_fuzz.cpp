// SPDX-License-Identifier: MIT
// Any text as an expression of small operands of many kinds: an Error or a value, nothing else.
#include <string_view>
#include <vector>

#include "layers/expression/engine.h"
#include "oort/layer.h"

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

std::vector<Value> MakeOperands() {
  return {Numbers(DType::kF32, {2, 3}),
          Numbers(DType::kF32, {3}),
          Numbers(DType::kI64, {2, 1}),
          Numbers(DType::kBool, {2, 3}),
          Numbers(DType::kF16, {3}),
          Numbers(DType::kC64, {1, 3}),
          Numbers(DType::kI8, {}),
          Numbers(DType::kU8, {2, 3}),
          Numbers(DType::kF64, {0, 3}),
          Tensor::Meta(DType::kI32, {1}),
          Value(7),
          Value(-2.5),
          Value(),
          Value("word"),
          Value(Value::List{Value(1), Value(2)}),
          Value::Deferred()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Value> values = MakeOperands();
  static const std::vector<const Value*> operands = [] {
    std::vector<const Value*> pointers;
    for (const Value& value : values) pointers.push_back(&value);
    return pointers;
  }();
  // Longer texts only take longer.
  const std::string_view text(reinterpret_cast<const char*>(data), std::min<size_t>(size, 4096));
  try {
    const oort::expression::Engine engine(oort::expression::Parse(text), oort::DefaultIsa());
    const Value inferred = engine.Infer(operands);
    if (inferred.IsDeferred()) return 0;
    Value output;
    if (inferred.IsTensor()) {
      output = Tensor(inferred.AsTensor().dtype(), inferred.AsTensor().shape());
    }
    // Operands without elements cannot be computed with, only described.
    if (text.find("@9") == std::string_view::npos) {
      engine.Forward(oort::Context(1, {}), operands, output);
    }
  } catch (const oort::Error&) {
    // Refused, as it should be.
  }
  return 0;
}
