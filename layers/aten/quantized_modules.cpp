// SPDX-License-Identifier: MIT
// Convolutions and dense layers on quantized tensors, exact in integers as torch's kernels are.
#include "layers/aten/quantized.h"
#include "layers/composite/decomposition.h"

namespace oort {
namespace {

/// Arguments that the modules have in common, by their place in the schema.
enum ModuleArg { kWeight, kBias, kScales, kZeroPoints, kScale, kZeroPoint, kStride };

/// Integers without their zero point: f32 where sums of `terms` products are exact there.
Value Centred(const Decomposer& call, const Value& integers, const Value& zero_point, bool exact) {
  const char* text =
      exact ? "torch.float(sub(torch.int(@0),torch.int(@1)))" : "sub(torch.int(@0),torch.int(@1))";
  return call.Formula(text, {integers, zero_point});
}

Value Quantized(const Value& integers, const Value& scale, const Value& zero_point) {
  return Value(Value::List{integers, scale, zero_point});
}

/// round(x) + zero_point as bytes.
Value ToBytes(const Decomposer& call, const std::string& x, std::vector<Value> operands,
              const Value& zero_point, bool relu, bool is_signed = false) {
  const std::string least = relu ? zero_point.ToString() : is_signed ? "-128" : "0";
  const std::string text = "clamp(add(round(" + x + ")," + zero_point.ToString() + ")," + least +
                           (is_signed ? ",127)" : ",255)");
  return call("Tensor.to", {{"input", call.Formula(text, operands)},
                            {"dtype", is_signed ? "torch.int8" : "torch.uint8"}});
}

Decomposition QuantizedModule(bool convolution, bool relu) {
  return [=](const Decomposer& call, const Args& args) -> std::vector<Value> {
    if (args.inputs().size() != 1) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected one input, got " + std::to_string(args.inputs().size()));
    }
    const Value& quantized = *args.inputs()[0];
    RequireQuantized(quantized);
    const Value::List& x = quantized.AsList();
    const Shape& shape = args.shape(kWeight);
    if (shape.rank() != (convolution ? 4 : 2) || args.tensor(kScales).elements() != shape[0] ||
        args.tensor(kZeroPoints).elements() != shape[0]) {
      throw Error(ErrorCode::kInvalidModel, "expected a scale and a zero point for each of " +
                                                std::to_string(shape[0]) + " outputs");
    }
    const int64_t terms = shape.Product(1, shape.rank());
    const bool exact = terms <= (int64_t{1} << 24) / (255 * 255);
    // One value for each output, beside the axes that follow.
    const Shape column = convolution ? Shape{shape[0], 1, 1} : Shape{shape[0]};
    Shape rows{shape[0]};
    while (rows.rank() < shape.rank()) rows.Append(1);
    const Value weight = Centred(call, args[kWeight], call.Reshape(args[kZeroPoints], rows), exact);
    const Value input = Centred(call, x[0], x[2], exact);
    std::vector<Decomposer::Argument> arguments{{"input", input}, {"weight", weight}};
    if (convolution) {
      int at = kStride;
      for (const char* name : {"stride", "padding", "dilation", "groups"}) {
        arguments.emplace_back(name, args[at++]);
      }
    }
    const Value sums = call(convolution ? "F.conv2d" : "F.linear", arguments);
    const Value scales =
        call.Formula("torch.float(mul(@0,@1))", {call.Reshape(args[kScales], column), x[1]});
    const double out = args[kScale].AsFloat();
    std::string sum = "torch.float(@0)";
    std::vector<Value> operands{sums, scales, out};
    if (args.Has(kBias)) {
      sum = "add(torch.float(@0),round(div(@3,@1)))";
      operands.push_back(call.Reshape(args[kBias], column));
    }
    const Value bytes =
        ToBytes(call, "mul(" + sum + ",div(@1,@2))", operands, args[kZeroPoint], relu);
    return {Quantized(bytes, args[kScale], args[kZeroPoint])};
  };
}

/// Modules whose weights have one scale for all are refused when the model is loaded.
LayerCreator CreateModule(bool convolution, bool relu) {
  return [create = CreateDecomposed(QuantizedModule(convolution, relu))](const LayerInit& init) {
    if (init.Constant("@weight.q_per_channel_scales").IsNone() ||
        init.Constant("@weight.q_per_channel_zero_points").IsNone()) {
      throw Error(ErrorCode::kUnsupported,
                  "its weights are quantized with one scale for all, which pnnx does not write; "
                  "quantize them per channel, or export the model before it is quantized");
    }
    return create(init);
  };
}

OperatorSchema ModuleSchema(const std::string& type, const char* doc) {
  return OperatorSchema({type}, doc)
      .FreeInputs()  // a list, which position would not tell from a weight
      .Attribute("weight", DTypeSet(DType::kI8))
      .OptionalAttribute("bias")
      .OptionalAttribute("weight.q_per_channel_scales", DType::kF32 | DType::kF64)
      .OptionalAttribute("weight.q_per_channel_zero_points", kReals)
      .Float("scale")
      .AtLeast(1e-30)
      .Int("zero_point")
      .AtLeast(0)
      .AtMost(255);
}

OperatorSchema ConvSchema(const std::string& type, const char* doc) {
  return ModuleSchema(type, doc)
      .Any("stride", Value(1))
      .Any("padding", Value(0))
      .Any("dilation", Value(1))
      .Int("groups", 1)
      .String("padding_mode", "zeros")
      .OneOf({"zeros"})
      .Ignored("in_channels")
      .Ignored("out_channels")
      .Ignored("kernel_size")
      .Ignored("bias");
}

OperatorSchema LinearSchema(const std::string& type, const char* doc) {
  return ModuleSchema(type, doc).Ignored("in_features").Ignored("out_features").Ignored("bias");
}

/// dim, scale, zero_point: quantized tensors, one after another or in one list, brought to one
/// scale.
std::vector<Value> QuantizedCat(const Decomposer& call, const Args& args) {
  const auto bytes = [&](const Value& value) {
    RequireQuantized(value);
    const Value::List& x = value.AsList();
    return ToBytes(call, "div(torch.float(mul(sub(torch.float(@0),@1),@2)),@3)",
                   {x[0], x[2], x[1], args[1]}, args[2], false);
  };
  Value::List parts;
  for (const Value* input : args.inputs()) {
    if (input->IsList() && !IsQuantized(*input)) {
      for (const Value& item : input->AsList()) parts.push_back(bytes(item));
    } else {
      parts.push_back(bytes(*input));
    }
  }
  const Value joined = call("torch.cat", {{"", Value(std::move(parts))}, {"dim", args[0]}});
  return {Quantized(joined, args[1], args[2])};
}

/// Functions of quantized tensors that are given the scale and zero point of their result as their
/// last two arguments. `formula` has the numbers of the first as @0, of a second as @1.
Decomposition QuantizedFormula(int operands, int scale, const std::string& formula, bool relu) {
  return [=](const Decomposer& call, const Args& args) -> std::vector<Value> {
    std::vector<Value> values;
    for (int i = 0; i < operands; ++i) {
      RequireQuantized(args[i]);
      const Value::List& x = args[i].AsList();
      values.push_back(
          call.Formula("torch.float(mul(sub(torch.float(@0),@1),@2))", {x[0], x[2], x[1]}));
    }
    const bool is_signed = args[0].AsList()[0].AsTensor().dtype() == DType::kI8;
    const Value by = ParameterOf(args[scale]), zero_point = ParameterOf(args[scale + 1]);
    const std::string divisor = "@" + std::to_string(operands);
    values.push_back(by);
    for (int i = operands; i < scale; ++i) values.push_back(ParameterOf(args[i]));
    const Value bytes = ToBytes(call, "div(" + formula + "," + divisor + ")", std::move(values),
                                zero_point, relu, is_signed);
    return {Quantized(bytes, by, zero_point)};
  };
}

void AddQuantizedFormulas(LayerRegistry& registry) {
  const auto add = [&](const char* type, const char* doc, const char* arguments, int operands,
                       int scale, const char* formula, bool relu) {
    AddDecomposition(registry, DecompositionSchema({type}, doc, arguments),
                     QuantizedFormula(operands, scale, formula, relu));
  };
  const char* two = "input other scale zero_point";
  add("quantized::add", "The sum of quantized tensors", two, 2, 2, "add(@0,@1)", false);
  add("quantized::add_relu", "The sum of quantized tensors, negative results as 0", two, 2, 2,
      "add(@0,@1)", true);
  add("quantized::mul", "The product of quantized tensors", two, 2, 2, "mul(@0,@1)", false);
  add("quantized::mul_relu", "The product of quantized tensors, negative results as 0", two, 2, 2,
      "mul(@0,@1)", true);
  const char* one = "input scale zero_point";
  add("quantized::hardswish", "x * relu6(x + 3) / 6 of a quantized tensor", one, 1, 1,
      "div(mul(@0,clamp(add(@0,3),0,6)),6)", false);
  add("quantized::sigmoid", "1 / (1 + exp(-x)) of a quantized tensor", one, 1, 1, "sigmoid(@0)",
      false);
  add("quantized::leaky_relu", "A quantized tensor, times negative_slope where it is negative",
      "input negative_slope inplace scale zero_point", 1, 3,
      "add(maximum(@0,0),mul(@2,minimum(@0,0)))", false);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(quantized_modules) {
  using namespace oort;
  registry.Add(ConvSchema("nn.quantized.Conv2d", "A convolution of quantized tensors"),
               CreateModule(true, false));
  registry.Add(ConvSchema("nn.intrinsic.quantized.ConvReLU2d",
                          "A convolution of quantized tensors, negative results as 0"),
               CreateModule(true, true));
  registry.Add(LinearSchema("nn.quantized.Linear", "A dense layer on quantized tensors"),
               CreateModule(false, false));
  registry.Add(LinearSchema("nn.intrinsic.quantized.LinearReLU",
                            "A dense layer on quantized tensors, negative results as 0"),
               CreateModule(false, true));
  AddDecomposition(registry,
                   OperatorSchema({"nn.quantized.cat"}, "Joins quantized tensors along `dim`")
                       .Int("dim", 0)
                       .Float("scale")
                       .AtLeast(1e-30)
                       .Int("zero_point")
                       .AtLeast(0)
                       .AtMost(255)
                       .FreeInputs(),
                   QuantizedCat);
  AddQuantizedFormulas(registry);
}
