// SPDX-License-Identifier: MIT
// Elementwise functions that pnnx leaves as ATen operators: each is an expression of several
// functions. Those of one function are rows of parser/expression/functions.inc.
#include <array>
#include <cmath>

#include "layers/expression/engine_layer.h"

namespace oort {
namespace {

using expression::CreateFromText;

/// A formula of one or two tensors.
struct ElementFormula {
  const char* name;  ///< behind "torch." and "aten::"
  int arity;
  const char* text;
  const char* doc;
};

constexpr ElementFormula kFormulas[] = {
    {"frac", 1, "sub(@0,trunc(@0))", "x - trunc(x)"},
    {"deg2rad", 1, "mul(@0,0.017453292519943295)", "degrees to radians"},
    {"rad2deg", 1, "mul(@0,57.29577951308232)", "radians to degrees"},
    {"isposinf", 1, "eq(@0,inf)", "whether an element is positive infinity"},
    {"isneginf", 1, "eq(@0,-inf)", "whether an element is negative infinity"},
    {"isreal", 1, "logical_or(eq(@0,0),ne(@0,0))", "true: the element is a real number"},
    {"special_ndtr", 1, "mul(0.5,erfc(mul(@0,-0.7071067811865476)))", "the normal distribution"},
    {"special_entr", 1,
     "where(isnan(@0),@0,where(gt(@0,0),neg(mul(@0,log(@0))),where(eq(@0,0),0.0,-inf)))",
     "-x log(x), 0 at 0"},
    {"heaviside", 2, "where(eq(@0,0),@1,type_as(gt(@0,0),@0))", "0, 1, or at 0 the second"},
    {"ldexp", 2, "mul(@0,pow(2.0,@1))", "x · 2^y"},
    {"fmax", 2, "where(isnan(@0),@1,where(isnan(@1),@0,maximum(@0,@1)))",
     "the larger of two; NaN only if both are"},
    {"fmin", 2, "where(isnan(@0),@1,where(isnan(@1),@0,minimum(@0,@1)))",
     "the smaller of two; NaN only if both are"},
    {"logaddexp2", 2,
     "where(eq(@0,@1),add(@0,1),add(maximum(@0,@1),mul(1.4426950408889634,"
     "log1p(exp2(neg(abs(sub(@0,@1))))))))",
     "log2(2^x + 2^y)"},
    {"xlogy", 2, "where(isnan(@1),@1,where(eq(@0,0),0.0,mul(@0,log(@1))))",
     "x log(y), 0 for x = 0"},
    {"special_xlog1py", 2, "where(isnan(@1),@1,where(eq(@0,0),0.0,mul(@0,log1p(@1))))",
     "x log1p(y), 0 for x = 0"},
    {"float_power", 2, "pow(torch.double(@0),torch.double(@1))", "x^y in f64"},
};

void AddFormulas(LayerRegistry& registry) {
  for (const ElementFormula& formula : kFormulas) {
    const std::string name = formula.name;
    OperatorSchema schema({"torch." + name, "aten::" + name}, formula.doc);
    schema.Tensor("input", kReals);
    if (formula.arity == 2) schema.Tensor("other", kReals);
    registry.Add(std::move(schema), CreateFromText(formula.text));
  }
}

/// Sums, products and quotients of several tensors with a factor.
void AddScaled(LayerRegistry& registry) {
  const auto three = [](const char* name, const char* b, const char* c, const char* doc) {
    return OperatorSchema({std::string("torch.") + name, std::string("aten::") + name}, doc)
        .Tensor("input", kAllDTypes)
        .Tensor(b, kAllDTypes)
        .Tensor(c, kAllDTypes);
  };
  registry.Add(three("addcmul", "tensor1", "tensor2", "input + value * tensor1 * tensor2")
                   .Number("value", Value(1)),
               CreateFromText("add(@0,mul(@3,mul(@1,@2)))"));
  registry.Add(three("addcdiv", "tensor1", "tensor2", "input + value * tensor1 / tensor2")
                   .Number("value", Value(1)),
               CreateFromText("add(@0,div(mul(@3,@1),@2))"));
  // From the nearer end, as torch does.
  registry.Add(three("lerp", "end", "weight", "input + weight * (end - input)"),
               CreateFromText("where(lt(abs(@2),0.5),add(@0,mul(@2,sub(@1,@0))),"
                              "sub(@1,mul(sub(@1,@0),sub(1,@2))))"));
  const auto scaled = [](const char* name, const char* doc) {
    return OperatorSchema({std::string("torch.") + name, std::string("aten::") + name}, doc)
        .Tensor("input", kAllDTypes)
        .Tensor("other", kAllDTypes)
        .Number("alpha", Value(1));
  };
  registry.Add(scaled("add", "input + alpha * other"), CreateFromText("add(@0,mul(@2,@1))"));
  registry.Add(scaled("sub", "input - alpha * other"), CreateFromText("sub(@0,mul(@2,@1))"));
  registry.Add(scaled("rsub", "other - alpha * input"), CreateFromText("sub(@1,mul(@2,@0))"));
  registry.Add(OperatorSchema({"aten::fake_quantize_per_tensor_affine"},
                              "What quantizing and back leaves: (clamp(round(x / scale + "
                              "zero_point), quant_min, quant_max) - zero_point) * scale")
                   .Tensor("input", kFloats)
                   .Tensor("scale", kFloats)
                   .Tensor("zero_point", kReals)
                   .Int("quant_min")
                   .Int("quant_max"),
               CreateFromText("mul(sub(clamp(round(add(mul(@0,div(1.0,@1)),@2)),@3,@4),@2),@1)"));
}

LayerCreator CreateLogit() {
  return [](const LayerInit& init) {
    const std::string x = init.Constant("eps").IsNone() ? "@0" : "clamp(@0,@1,sub(1,@1))";
    return CreateFromText("log(div(" + x + ",sub(1," + x + ")))")(init);
  };
}

/// |a - b| <= atol + rtol * |b|; equal elements are close even if infinite.
LayerCreator CreateIsclose() {
  return [](const LayerInit& init) {
    std::string equal = "eq(@0,@1)";
    if (init.Bool("equal_nan")) equal = "or(" + equal + ",and(isnan(@0),isnan(@1)))";
    return CreateFromText("or(" + equal +
                          ",and(isfinite(sub(@0,@1)),le(abs(sub(@0,@1)),"
                          "add(@3,abs(mul(@2,@1))))))")(init);
  };
}

LayerCreator CreatePolygamma() {
  return [](const LayerInit& init) {
    const int64_t n = init.Int("n");
    if (n < 0 || n > 170) throw Error(ErrorCode::kUnsupported, "takes n from 0 to 170");
    if (n == 0) return CreateFromText("digamma(@1)")(init);
    const double factor = (n % 2 == 0 ? -1 : 1) * std::tgamma(static_cast<double>(n) + 1);
    return CreateFromText("mul(" + Value(factor).ToString() + ",zeta(" +
                          Value(static_cast<double>(n) + 1).ToString() + ",@1))")(init);
  };
}

LayerCreator CreateMvlgamma() {
  return [](const LayerInit& init) {
    const int64_t p = init.Int("p");
    if (p < 1 || p > 64) throw Error(ErrorCode::kUnsupported, "takes p from 1 to 64");
    const double count = static_cast<double>(p);
    std::string text = Value(count * (count - 1) / 4 * std::log(3.14159265358979323846)).ToString();
    for (int64_t i = 0; i < p; ++i) {
      const std::string half = Value(static_cast<double>(i) / 2).ToString();
      text = "add(" + text + ",lgamma(sub(@0," + half + ")))";
    }
    return CreateFromText(text)(init);
  };
}

/// Chooses a formula by the dtype of the first argument.
class FormulaByDType final : public Layer {
 public:
  using Formula = std::string (*)(const LayerInit& init, DType dtype);
  FormulaByDType(const LayerInit& init, Formula formula) {
    for (int i = 1; i < kDTypeCount; ++i) {
      const DType dtype = static_cast<DType>(i);
      layers_[static_cast<size_t>(i)] = CreateFromText(formula(init, dtype))(init);
    }
  }
  std::vector<Value> Infer(const Args& args) const override { return Of(args).Infer(args); }
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Of(args).Forward(context, args, outputs);
  }
  std::vector<Reuse> Reuses(const Args& args) const override { return Of(args).Reuses(args); }

 private:
  const Layer& Of(const Args& args) const {
    const DType dtype = args[0].IsTensor()  ? args.tensor(0).dtype()
                        : args[0].IsFloat() ? DType::kF32
                                            : DType::kI64;
    return *layers_[static_cast<size_t>(dtype)];
  }
  std::array<std::unique_ptr<Layer>, kDTypeCount> layers_;
};

bool IsWhole(DType dtype) { return IsInteger(dtype) || dtype == DType::kBool; }

/// Infinities become the largest numbers of their dtype unless others are named.
std::string NanToNumText(const LayerInit& init, DType dtype) {
  if (!IsFloat(dtype)) return "@0";
  const double largest = dtype == DType::kF64    ? 1.7976931348623157e308
                         : dtype == DType::kF16  ? 65504.0
                         : dtype == DType::kBF16 ? 3.3895313892515355e38
                                                 : 3.4028234663852886e38;
  const auto given = [&](const char* name, double fallback) {
    const Value& value = init.Constant(name);
    return Value(value.IsNone() ? fallback : value.AsFloat()).ToString();
  };
  return "where(isnan(@0)," + given("nan", 0) + ",where(eq(@0,inf)," + given("posinf", largest) +
         ",where(eq(@0,-inf)," + given("neginf", -largest) + ",@0)))";
}

std::string DivideText(const LayerInit& init, DType dtype) {
  const Value& mode = init.Constant("rounding_mode");
  if (mode.IsNone()) return "div(@0,@1)";
  if (mode.AsString() == "floor") return "floor_divide(@0,@1)";
  // What is left without the rest divides exactly.
  return IsWhole(dtype) ? "floor_divide(sub(@0,fmod(@0,@1)),@1)" : "trunc(div(@0,@1))";
}

LayerCreator CreateByDType(FormulaByDType::Formula formula) {
  return
      [formula](const LayerInit& init) { return std::make_unique<FormulaByDType>(init, formula); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(more_functions) {
  using namespace oort;
  AddFormulas(registry);
  AddScaled(registry);
  registry.Add(OperatorSchema({"torch.logit", "aten::logit"},
                              "log(x / (1 - x)), with x kept eps away from 0 and 1")
                   .Tensor("input", kReals)
                   .Float("eps")
                   .Nullable(),
               CreateLogit());
  registry.Add(OperatorSchema({"torch.isclose", "aten::isclose"},
                              "whether |input - other| <= atol + rtol * |other|")
                   .Tensor("input", kReals)
                   .Tensor("other", kReals)
                   .Float("rtol", 1e-5)
                   .Float("atol", 1e-8)
                   .Bool("equal_nan", false),
               CreateIsclose());
  registry.Add(
      OperatorSchema({"torch.polygamma", "aten::polygamma"}, "the n-th derivative of digamma")
          .Int("n")
          .Tensor("input", kReals),
      CreatePolygamma());
  registry.Add(OperatorSchema({"torch.mvlgamma", "aten::mvlgamma"},
                              "the logarithm of the multivariate gamma function of dimension p")
                   .Tensor("input", kReals)
                   .Int("p"),
               CreateMvlgamma());
  registry.Add(OperatorSchema({"torch.nan_to_num", "aten::nan_to_num"},
                              "numbers in place of NaN and infinities")
                   .Tensor("input", kReals)
                   .Float("nan")
                   .Nullable()
                   .Float("posinf")
                   .Nullable()
                   .Float("neginf")
                   .Nullable(),
               CreateByDType(NanToNumText));
  registry.Add(OperatorSchema({"torch.div", "aten::div", "aten::divide"},
                              "input / other, rounded as rounding_mode says")
                   .Tensor("input", kAllDTypes)
                   .Tensor("other", kAllDTypes)
                   .String("rounding_mode")
                   .Nullable()
                   .OneOf({"floor", "trunc"}),
               CreateByDType(DivideText));
}
