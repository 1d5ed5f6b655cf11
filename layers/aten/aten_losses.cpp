// SPDX-License-Identifier: MIT
// Loss functions: some exported models return them beside their outputs.
#include "layers/composite/decomposition.h"

namespace oort {
namespace {

/// ATen's numbers: 0 keeps the elements, 1 is their mean, 2 their sum.
Value Reduced(const Decomposer& call, const Value& loss, const Value& reduction) {
  const int64_t kind = reduction.IsNone() ? 1 : reduction.AsInt();
  if (kind < 0 || kind > 2) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected reduction 0, 1 or 2, got " + reduction.ToString());
  }
  return kind == 0 ? loss : call(kind == 1 ? "torch.mean" : "torch.sum", {{"input", loss}});
}

struct LossFormula {
  const char* name;
  const char* arguments;
  const char* text;  ///< `@i` is the i-th argument
  int reduction;     ///< index of that argument
  const char* doc;
};

constexpr LossFormula kLosses[] = {
    {"mse_loss", "*input *target reduction", "square(sub(@0,@1))", 2, "(x - y)²"},
    {"l1_loss", "*input *target reduction", "abs(sub(@0,@1))", 2, "abs(x - y)"},
    {"huber_loss", "*input *target reduction delta",
     "where(le(abs(sub(@0,@1)),@3),mul(0.5,square(sub(@0,@1))),"
     "mul(@3,sub(abs(sub(@0,@1)),mul(0.5,@3))))",
     2, "d²/2 up to delta, and linear from there"},
    {"soft_margin_loss", "*input *target reduction", "log1p(exp(neg(mul(@1,@0))))", 2,
     "log(1 + exp(-x y))"},
    {"hinge_embedding_loss", "*input *target margin reduction",
     "add(where(ne(@1,1),clamp(sub(@2,@0),0,None),0.0),where(ne(@1,-1),@0,0.0))", 3,
     "x for targets of 1, max(0, margin - x) for those of -1"},
    {"margin_ranking_loss", "*input1 *input2 *target margin reduction",
     "clamp(add(mul(neg(@2),sub(@0,@1)),@3),0,None)", 4, "max(0, -y (x1 - x2) + margin)"},
};

void AddFormulaLosses(LayerRegistry& registry) {
  for (const LossFormula& loss : kLosses) {
    const std::string name = loss.name;
    AddDecomposition(
        registry, DecompositionSchema({"aten::" + name}, loss.doc, loss.arguments, kReals),
        [&loss](const Decomposer& call, const Args& args) -> std::vector<Value> {
          std::vector<Value> operands;
          for (int i = 0; i < args.size(); ++i) operands.push_back(ValueOr(args, i, 1));
          return {Reduced(call, call.Formula(loss.text, operands), args[loss.reduction])};
        });
  }
}

std::vector<Value> SmoothL1(const Decomposer& call, const Args& args) {
  const double beta = ValueOr(args, 3, 1.0).AsFloat();
  const char* text = beta == 0 ? "abs(sub(@0,@1))"
                               : "where(lt(abs(sub(@0,@1)),@2),"
                                 "div(mul(0.5,square(sub(@0,@1))),@2),"
                                 "sub(abs(sub(@0,@1)),mul(0.5,@2)))";
  return {Reduced(call, call.Formula(text, {args[0], args[1], beta}), args[2])};
}

std::vector<Value> KlDiv(const Decomposer& call, const Args& args) {
  const char* text = ValueOr(args, 3, false).AsBool()
                         ? "mul(exp(@1),sub(@1,@0))"
                         : "sub(where(eq(@1,0),0.0,mul(@1,log(@1))),mul(@1,@0))";
  return {Reduced(call, call.Formula(text, {args[0], args[1]}), args[2])};
}

Value Weighted(const Decomposer& call, const Value& loss, const Value& weight) {
  return weight.IsNone() ? loss : call.Formula("mul(@0,@1)", {loss, weight});
}

std::vector<Value> BinaryCrossEntropy(const Decomposer& call, const Args& args) {
  const Value loss = call.Formula(
      "sub(mul(sub(@1,1),clamp(log1p(neg(@0)),-100,None)),mul(@1,clamp(log(@0),-100,None)))",
      {args[0], args[1]});
  return {Reduced(call, Weighted(call, loss, args[2]), args[3])};
}

std::vector<Value> BinaryCrossEntropyOfLogits(const Decomposer& call, const Args& args) {
  const Value factor =
      args.Has(3) ? call.Formula("add(mul(sub(@1,1),@0),1)", {args[1], args[3]}) : Value(1);
  const Value loss = call.Formula(
      "add(mul(sub(1,@1),@0),mul(@2,add(log1p(exp(neg(abs(@0)))),clamp(neg(@0),0,None))))",
      {args[0], args[1], factor});
  return {Reduced(call, Weighted(call, loss, args[2]), args[4])};
}

std::vector<Value> PoissonNll(const Decomposer& call, const Args& args) {
  Value loss = call.Formula(ValueOr(args, 2, true).AsBool() ? "sub(exp(@0),mul(@1,@0))"
                                                            : "sub(@0,mul(@1,log(add(@0,@2))))",
                            {args[0], args[1], ValueOr(args, 4, 1e-8)});
  if (ValueOr(args, 3, false).AsBool()) {
    loss = call.Formula(
        "add(@0,where(gt(@1,1),add(sub(mul(@1,log(@1)),@1),"
        "mul(0.5,log(mul(6.283185307179586,@1)))),0.0))",
        {loss, args[1]});
  }
  return {Reduced(call, loss, args[5])};
}

std::vector<Value> CosineEmbedding(const Decomposer& call, const Args& args) {
  const Value dim = Value::List{args.tensor(0).rank() > 1 ? 1 : 0};
  const auto product = [&](int a, int b) {
    return call("torch.sum",
                {{"input", call.Formula("mul(@0,@1)", {args[a], args[b]})}, {"dim", dim}});
  };
  const Value cosine = call.Formula("div(@0,sqrt(mul(add(@1,1e-12),add(@2,1e-12))))",
                                    {product(0, 1), product(0, 0), product(1, 1)});
  const Value loss =
      call.Formula("where(eq(@1,1),sub(1,@0),where(eq(@1,-1),clamp(sub(@0,@2),0,None),0.0))",
                   {cosine, args[2], ValueOr(args, 3, 0.0)});
  return {Reduced(call, loss, args[4])};
}

std::vector<Value> TripletMargin(const Decomposer& call, const Args& args) {
  const auto distance = [&](int a, int b) {
    return call("F.pairwise_distance", {{"x1", args[a]},
                                        {"x2", args[b]},
                                        {"p", ValueOr(args, 4, 2.0)},
                                        {"eps", ValueOr(args, 5, 1e-6)}});
  };
  Value away = distance(0, 2);
  if (ValueOr(args, 6, false).AsBool()) {
    away = call.Formula("minimum(@0,@1)", {away, distance(1, 2)});
  }
  const Value loss = call.Formula("clamp(add(sub(@0,@1),@2),0,None)",
                                  {distance(0, 1), away, ValueOr(args, 3, 1.0)});
  return {Reduced(call, loss, args[7])};
}

/// What a class loss takes from its targets: tensors of their shape.
struct ClassTargets {
  Value classes;  ///< 0 where the target is ignored
  Value weight;   ///< of the target's class, 0 where it is ignored
};

ClassTargets ReadTargets(const Decomposer& call, const Value& target, const Value& weight,
                         int64_t ignored) {
  const Shape& shape = target.AsTensor().shape();
  const Value classes = call.Formula("where(eq(@0,@1),0,@0)", {target, ignored});
  if (weight.IsNone()) return {classes, call.Formula("ne(@0,@1)", {target, ignored})};
  const Value flat = call.Reshape(classes, {target.AsTensor().elements()});
  const Value picked = call.Reshape(
      call("torch.index_select", {{"input", weight}, {"dim", 0}, {"index", flat}}), shape);
  return {classes, call.Formula("where(eq(@1,@2),0.0,@0)", {picked, target, ignored})};
}

int ClassAxis(const Value& x) { return x.AsTensor().rank() > 1 ? 1 : 0; }

/// The elements of the targets' classes.
Value PickClasses(const Decomposer& call, const Value& x, const Value& classes) {
  const Shape& shape = classes.AsTensor().shape();
  Shape index = shape;
  index.Insert(ClassAxis(x), 1);
  const Value picked =
      call("torch.gather",
           {{"input", x}, {"dim", ClassAxis(x)}, {"index", call.Reshape(classes, index)}});
  return call.Reshape(picked, shape);
}

/// A mean is over the weights of the targets.
Value ReducedByWeight(const Decomposer& call, const Value& loss, const Value& weight,
                      const Value& reduction) {
  if (!reduction.IsNone() && reduction.AsInt() != 1) return Reduced(call, loss, reduction);
  return call.Formula(
      "div(@0,@1)", {call("torch.sum", {{"input", loss}}), call("torch.sum", {{"input", weight}})});
}

Value NllOf(const Decomposer& call, const Value& x, const ClassTargets& targets,
            const Value& reduction) {
  const Value loss = call.Formula("where(eq(@1,0),0.0,neg(mul(@0,@1)))",
                                  {PickClasses(call, x, targets.classes), targets.weight});
  return ReducedByWeight(call, loss, targets.weight, reduction);
}

std::vector<Value> Nll(const Decomposer& call, const Args& args) {
  const int64_t ignored = ValueOr(args, 4, -100).AsInt();
  return {NllOf(call, args[0], ReadTargets(call, args[1], args[2], ignored), args[3])};
}

/// A weight for each class, along the axis of the classes.
Value ByClass(const Decomposer& call, const Value& x, const Value& weight) {
  if (weight.IsNone()) return x;
  Shape along;
  for (int i = 0; i < x.AsTensor().rank(); ++i) {
    along.Append(i == ClassAxis(x) ? weight.AsTensor().elements() : 1);
  }
  return call.Formula("mul(@0,@1)", {x, call.Reshape(weight, along)});
}

Value OverClasses(const Decomposer& call, const Value& x) {
  const Value dim = Value::List{ClassAxis(x)};
  return call.Formula("neg(@0)", {call("torch.sum", {{"input", x}, {"dim", dim}})});
}

/// input, target, weight, reduction, ignore_index, label_smoothing; the targets are classes, or
/// the probability of each class.
std::vector<Value> CrossEntropy(const Decomposer& call, const Args& args) {
  const Value &x = args[0], &target = args[1], &weight = args[2], &reduction = args[3];
  const double smoothing = ValueOr(args, 5, 0.0).AsFloat();
  const auto classes = static_cast<double>(x.AsTensor().shape()[ClassAxis(x)]);
  const Value logs = call("F.log_softmax", {{"input", x}, {"dim", ClassAxis(x)}});
  if (IsFloat(target.AsTensor().dtype())) {
    const Value product = call.Formula("mul(@0,add(mul(@1,@2),@3))",
                                       {logs, target, 1 - smoothing, smoothing / classes});
    const Value loss = OverClasses(call, ByClass(call, product, weight));
    return {Reduced(call, loss, reduction)};
  }
  const ClassTargets targets = ReadTargets(call, target, weight, ValueOr(args, 4, -100).AsInt());
  const Value loss = NllOf(call, logs, targets, reduction);
  if (smoothing == 0) return {loss};
  const Value spread = call.Formula(
      "where(eq(@1,@2),0.0,@0)",
      {OverClasses(call, ByClass(call, logs, weight)), target, ValueOr(args, 4, -100)});
  return {call.Formula("add(mul(@0,@2),mul(@1,@3))",
                       {loss, ReducedByWeight(call, spread, targets.weight, reduction),
                        1 - smoothing, smoothing / classes})};
}

void AddClassLosses(LayerRegistry& registry) {
  AddDecomposition(registry,
                   DecompositionSchema({"aten::nll_loss", "aten::nll_loss_nd", "aten::nll_loss2d"},
                                       "-x[class], times the weight of the class",
                                       "*input *target ?weight reduction ignore_index"),
                   Nll);
  AddDecomposition(
      registry,
      DecompositionSchema({"aten::cross_entropy_loss"},
                          "`aten::nll_loss` of the logarithm of a softmax",
                          "*input *target ?weight reduction ignore_index label_smoothing"),
      CrossEntropy);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(aten_losses) {
  using namespace oort;
  AddFormulaLosses(registry);
  AddClassLosses(registry);
  const auto add = [&](const std::string& name, const char* doc, const char* arguments,
                       Decomposition decomposition) {
    AddDecomposition(registry, DecompositionSchema({"aten::" + name}, doc, arguments, kReals),
                     std::move(decomposition));
  };
  add("smooth_l1_loss", "d² / (2 beta) up to beta, and linear from there",
      "*input *target reduction beta", SmoothL1);
  add("kl_div", "y (log(y) - x)", "*input *target reduction log_target", KlDiv);
  add("binary_cross_entropy", "-y log(x) - (1 - y) log(1 - x), logarithms of -100 at least",
      "*input *target ?weight reduction", BinaryCrossEntropy);
  add("binary_cross_entropy_with_logits", "`aten::binary_cross_entropy` of sigmoid(x)",
      "*input *target ?weight ?pos_weight reduction", BinaryCrossEntropyOfLogits);
  add("poisson_nll_loss", "exp(x) - y x, or x - y log(x + eps)",
      "*input *target log_input full eps reduction", PoissonNll);
  add("cosine_embedding_loss", "1 - cos for targets of 1, max(0, cos - margin) for those of -1",
      "*input1 *input2 *target margin reduction", CosineEmbedding);
  add("triplet_margin_loss", "max(0, distance to positive - distance to negative + margin)",
      "*anchor *positive *negative margin p eps swap reduction", TripletMargin);
}
