// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>

#include "graph/bind_constants.h"
#include "graph/decomposition.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// Thrown while an operator is taken apart: it is left to its layer.
[[noreturn]] void Refuse(const char* reason) { throw Error(ErrorCode::kUnsupported, reason); }

bool IsSubset(DTypeSet set, DTypeSet of) {
  for (int i = 0; i < 32; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (set.Contains(dtype) && !of.Contains(dtype)) return false;
  }
  return true;
}

bool IsSame(const Value& a, const Value& b) {
  if (a.IsList() && b.IsList()) {
    return std::equal(a.AsList().begin(), a.AsList().end(), b.AsList().begin(), b.AsList().end(),
                      IsSame);
  }
  if (a.IsTensor() && b.IsTensor()) {
    const Tensor &x = a.AsTensor(), &y = b.AsTensor();
    return x.buffer() == y.buffer() && x.offset() == y.offset() && x.dtype() == y.dtype() &&
           x.shape() == y.shape();
  }
  if (a.IsDeferred() || b.IsDeferred()) {
    return a.DeferredOperand() >= 0 && a.DeferredOperand() == b.DeferredOperand();
  }
  return a.KindName() == b.KindName();
}

/// Adds the parts of one operator to the operands of a graph; the parts themselves it keeps.
class GraphDecomposer final : public Decomposer {
 public:
  GraphDecomposer(Graph& graph, const PassContext& context, const Operator& whole,
                  const std::vector<Value>& known)
      : graph_(graph),
        context_(context),
        whole_(whole),
        known_(known),
        first_new_(static_cast<int>(graph.operands.size())) {}

  Value Reshape(const Value& value, const Shape& shape) const override {
    if (value.IsTensor()) return value.AsTensor().Reshaped(shape);
    return (*this)("Tensor.reshape", {{"input", value}, {"shape", Value::Ints(shape.dims())}});
  }
  void ExpectLike(const Value& value, const Value& other) const override {
    const int operand = value.DeferredOperand(), from = other.DeferredOperand();
    if (operand < 0 || from < 0) return;
    const Operand hint = graph_.operands[static_cast<size_t>(from)];
    Operand& to = graph_.operands[static_cast<size_t>(operand)];
    to.dtype = hint.dtype;
    to.shape = hint.shape;
    to.has_shape = hint.has_shape;
  }
  int outputs() const override { return static_cast<int>(whole_.outputs.size()); }
  bool computes() const override { Refuse("looks at elements"); }

  /// The parts, once `results` are what the whole gives. Outputs that are no part's own are entered
  /// into `aliases`, which maps operands to those that take their place.
  std::vector<Operator> Finish(const std::vector<Value>& results, std::map<int, int>& aliases);

  const std::vector<Operator>& parts() const { return parts_; }

 protected:
  std::vector<Value> Call(Operator part, const std::vector<Value>& operands,
                          int outputs) const override;

 private:
  bool IsNew(int operand) const { return operand >= first_new_; }
  bool IsKnown(int operand) const {
    return !IsNew(operand) && known_[static_cast<size_t>(operand)].IsConcrete();
  }
  int NewOperand() const {
    return graph_.AddOperand(whole_.name + "/" + std::to_string(graph_.operands.size()));
  }
  /// The operands that stand for a value: for a list one, or one for each item.
  std::vector<int> OperandsOf(const Value& value, bool spread) const;
  int ConstantOperand(const Tensor& tensor) const;
  void CheckInputs(const Operator& part, const OperatorSchema& schema) const;
  void Hint(const Operator& part) const;
  Value HintOf(int operand) const;

  Graph& graph_;
  const PassContext& context_;
  const Operator& whole_;
  const std::vector<Value>& known_;  // by operand, deferred where it is no constant
  int first_new_;
  mutable std::vector<Operator> parts_;
};

int GraphDecomposer::ConstantOperand(const Tensor& tensor) const {
  for (int input : whole_.inputs) {
    if (IsSame(known_[static_cast<size_t>(input)], tensor)) return input;
  }
  for (const Operator& part : parts_) {
    const Tensor* data = FindAttribute(part, "data");
    if (data != nullptr && IsSame(*data, tensor)) return part.outputs[0];
  }
  Operator constant;
  constant.type = "pnnx.Attribute";
  constant.attributes.emplace("data", tensor);
  constant.outputs = {NewOperand()};
  parts_.push_back(std::move(constant));
  return parts_.back().outputs[0];
}

std::vector<int> GraphDecomposer::OperandsOf(const Value& value, bool spread) const {
  if (value.DeferredOperand() >= 0) return {value.DeferredOperand()};
  if (value.IsTensor() && value.IsConcrete()) return {ConstantOperand(value.AsTensor())};
  if (!value.IsList()) Refuse("has a part whose operand is not known");
  const Value::List& items = value.AsList();
  const bool tensors = std::all_of(items.begin(), items.end(), [](const Value& item) {
    return item.IsTensor() || item.IsDeferred();
  });
  if (tensors && spread) {
    std::vector<int> operands;
    for (const Value& item : items) operands.push_back(OperandsOf(item, false)[0]);
    return operands;
  }
  for (int input : whole_.inputs) {
    if (IsSame(known_[static_cast<size_t>(input)], value)) return {input};
  }
  if (!tensors) Refuse("has a part that takes a new list of numbers");
  Operator list;
  list.type = "prim::ListConstruct";
  list.inputs = OperandsOf(value, true);
  list.outputs = {NewOperand()};
  parts_.push_back(std::move(list));
  return parts_.back().outputs;
}

/// What is no tensor must be a constant, unless the part takes it while the model runs.
void GraphDecomposer::CheckInputs(const Operator& part, const OperatorSchema& schema) const {
  std::vector<Problem> problems;
  const BoundArgs bound = BindArguments(schema, part, problems);
  if (!problems.empty()) Refuse("has a part with wrong arguments");
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const ArgSpec& spec = schema.args()[i];
    const int input = bound.args[i].input;
    if (input < 0 || spec.dynamic || spec.type == ArgType::kTensor) continue;
    if (!IsKnown(part.inputs[static_cast<size_t>(input)])) Refuse("has a part that takes numbers");
  }
}

std::vector<Value> GraphDecomposer::Call(Operator part, const std::vector<Value>& operands,
                                         int outputs) const {
  const OperatorSchema* schema = context_.registry->Schema(part.type);
  if (schema == nullptr || !context_.HasLayer(part.type)) Refuse("has a part without a layer");
  constexpr size_t kMostParts = 64;  // a matrix to a high power is better off as a loop
  if (parts_.size() >= kMostParts) Refuse("has very many parts");
  for (const auto& [name, tensor] : part.attributes) {
    if (!tensor.has_data()) Refuse("has weights that are not there");
  }
  const bool takes_any =
      schema->free_inputs() || std::any_of(schema->args().begin(), schema->args().end(),
                                           [](const ArgSpec& arg) { return arg.variadic; });
  std::vector<std::string> names;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string& name = part.input_names[i];
    for (int operand : OperandsOf(operands[i], takes_any && name.empty())) {
      part.inputs.push_back(operand);
      names.push_back(name);
    }
  }
  part.input_names = std::move(names);
  std::vector<Value> results;
  for (int i = 0; i < outputs; ++i) {
    part.outputs.push_back(NewOperand());
    results.push_back(Value::Deferred(part.outputs.back()));
  }
  CheckInputs(part, *schema);
  Hint(part);
  parts_.push_back(std::move(part));
  return results;
}

Value GraphDecomposer::HintOf(int operand) const {
  if (IsKnown(operand)) return known_[static_cast<size_t>(operand)];
  const Operand& hint = graph_.operands[static_cast<size_t>(operand)];
  const bool known = hint.has_shape && hint.dtype != DType::kNull &&
                     std::none_of(hint.shape.begin(), hint.shape.end(),
                                  [](int64_t extent) { return extent == Shape::kUnknown; });
  return known ? Value(Tensor::Meta(hint.dtype, hint.shape)) : Value::Deferred();
}

/// What the trace says of the whole's operands says something of those in between.
void GraphDecomposer::Hint(const Operator& part) const {
  if (!context_.infer) return;
  std::vector<Value> inputs;
  for (int input : part.inputs) inputs.push_back(HintOf(input));
  if (std::any_of(inputs.begin(), inputs.end(), HoldsDeferred)) return;
  const auto results = context_.infer(part, inputs);
  if (!results) return;
  for (size_t i = 0; i < part.outputs.size() && i < results->size(); ++i) {
    if (!(*results)[i].IsTensor()) continue;
    Operand& operand = graph_.operands[static_cast<size_t>(part.outputs[i])];
    operand.dtype = (*results)[i].AsTensor().dtype();
    operand.shape = (*results)[i].AsTensor().shape();
    operand.has_shape = true;
  }
}

std::vector<Operator> GraphDecomposer::Finish(const std::vector<Value>& results,
                                              std::map<int, int>& aliases) {
  if (results.size() != whole_.outputs.size()) Refuse("has another number of outputs");
  std::map<int, int> renamed;  // new operands that are outputs of the whole
  std::vector<std::pair<int, int>> shared;
  for (size_t i = 0; i < results.size(); ++i) {
    const int operand = OperandsOf(results[i], false)[0], output = whole_.outputs[i];
    if (!IsNew(operand) || !renamed.emplace(operand, output).second) {
      shared.emplace_back(output, operand);
    }
  }
  const auto rename = [&](int& operand) {
    if (const auto found = renamed.find(operand); found != renamed.end()) operand = found->second;
  };
  for (auto& [output, operand] : shared) {
    rename(operand);
    aliases.emplace(output, operand);
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    Operator& part = parts_[i];
    for (int& input : part.inputs) rename(input);
    for (int& output : part.outputs) rename(output);
    part.name = parts_.size() == 1 ? whole_.name : whole_.name + "/" + std::to_string(i);
    part.line = whole_.line;
    part.whole_name = whole_.FileName();
    part.whole_type = whole_.FileType();
  }
  return std::move(parts_);
}

class Decompose {
 public:
  Decompose(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  /// Whether an operator was taken apart.
  bool Run() {
    std::vector<bool> candidate;
    for (const Operator& op : graph_.operators) {
      candidate.push_back(static_cast<bool>(context_.registry->DecompositionOf(op.type)));
    }
    if (std::find(candidate.begin(), candidate.end(), true) == candidate.end()) return false;
    FindKnown();
    std::vector<Operator> operators;
    bool changed = false;
    for (size_t i = 0; i < candidate.size(); ++i) {
      Operator& op = graph_.operators[i];
      std::vector<Operator> parts;
      if (candidate[i] && TakeApart(op, parts)) {
        changed = true;
        std::move(parts.begin(), parts.end(), std::back_inserter(operators));
      } else {
        operators.push_back(op);
      }
    }
    if (!changed) return false;
    for (Operator& op : operators) {
      for (int& input : op.inputs) {
        for (auto at = aliases_.find(input); at != aliases_.end(); at = aliases_.find(input)) {
          input = at->second;
        }
      }
    }
    graph_.operators = std::move(operators);
    graph_.Remove({});  // enters the new operators into their operands
    return true;
  }

 private:
  /// Tensors of the file, numbers that are known now, and lists of these and of operands. What
  /// gives tensors from constants alone has been folded.
  void FindKnown() {
    for (size_t i = 0; i < graph_.operands.size(); ++i) {
      known_.push_back(Value::Deferred(static_cast<int>(i)));
    }
    for (int index : graph_.TopologicalOrder()) {
      const Operator& op = graph_.operators[static_cast<size_t>(index)];
      if (op.type == "pnnx.Input" || op.type == "pnnx.Output") continue;
      if (op.type == "pnnx.Attribute") {
        const Tensor* data = FindAttribute(op, "data");
        if (data != nullptr && data->has_data()) At(op.outputs[0]) = *data;
        continue;
      }
      const std::vector<Value> inputs = InputsOf(op);
      const bool constant = std::all_of(inputs.begin(), inputs.end(),
                                        [](const Value& value) { return value.IsConcrete(); });
      if (constant && Evaluate(op, inputs)) continue;
      if (op.type == "prim::ListConstruct" || op.type == "prim::TupleConstruct") {
        At(op.outputs[0]) = Value(inputs);
      }
    }
  }

  bool Evaluate(const Operator& op, const std::vector<Value>& inputs) {
    const auto results = context_.evaluate(op, inputs);
    if (!results || results->size() != op.outputs.size()) return false;
    for (size_t i = 0; i < results->size(); ++i) At(op.outputs[i]) = (*results)[i];
    return true;
  }

  bool TakeApart(const Operator& op, std::vector<Operator>& parts) {
    const size_t operands = graph_.operands.size();
    try {
      parts = PartsOf(op);
      return true;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kOutOfMemory) throw;
      // Something is not known before the model runs, or it is wrong, which the layer will tell.
      graph_.operands.resize(operands);
      return false;
    }
  }

  std::vector<Operator> PartsOf(const Operator& op) {
    const OperatorSchema& schema = *context_.registry->Schema(op.type);
    if (schema.free_inputs()) Refuse("its inputs have no names");
    const std::vector<Value> inputs = InputsOf(op);
    std::vector<Value> constants;
    for (const Value& input : inputs) {
      constants.push_back(input.IsConcrete() ? input : Value::Deferred());
    }
    std::vector<Problem> problems;
    BoundArgs bound = BindArguments(schema, op, problems);
    if (!problems.empty() || !bound.variadic.empty()) Refuse("its arguments are not clear");
    BindConstants(schema, constants, bound);
    const Value none;
    std::vector<const Value*> args, all;
    for (size_t i = 0; i < bound.args.size(); ++i) {
      const ArgSpec& spec = schema.args()[i];
      const int input = bound.args[i].input;
      const Value* value = input < 0 ? &bound.args[i].value : &inputs[static_cast<size_t>(input)];
      args.push_back(spec.ignored ? &none : value);
      // What steers must be known; tensors need not, but then nothing may be asked of them.
      if (spec.type != ArgType::kTensor && args.back()->IsDeferred()) Refuse("is steered");
    }
    for (const Value& input : inputs) all.push_back(&input);
    GraphDecomposer decomposer(graph_, context_, op, known_);
    const std::vector<Value> results =
        context_.registry->DecompositionOf(op.type)(decomposer, Args(args, {}, all));
    for (size_t i = 0; i < args.size(); ++i) {
      CheckDTypes(schema.args()[i], args[i]->DeferredOperand(), decomposer.parts());
    }
    std::map<int, int> aliases = aliases_;
    std::vector<Operator> parts = decomposer.Finish(results, aliases);
    aliases_ = std::move(aliases);
    return parts;
  }

  /// Dtypes that the whole refuses must be refused by one of the parts as well.
  void CheckDTypes(const ArgSpec& spec, int operand, const std::vector<Operator>& parts) const {
    if (operand < 0 || spec.type != ArgType::kTensor || IsSubset(kReals, spec.dtypes)) return;
    for (const Operator& part : parts) {
      const OperatorSchema* schema = context_.registry->Schema(part.type);
      if (schema == nullptr) continue;  // a constant
      std::vector<Problem> problems;
      const BoundArgs bound = BindArguments(*schema, part, problems);
      for (size_t i = 0; i < bound.args.size(); ++i) {
        const int input = bound.args[i].input;
        const ArgSpec& own = schema->args()[i];
        if (own.type != ArgType::kTensor) continue;
        // Masks may stand beside other tensors, which the layer tells apart.
        const bool among =
            own.variadic && std::count(part.inputs.begin(), part.inputs.end(), operand);
        const bool alone = input >= 0 && part.inputs[static_cast<size_t>(input)] == operand;
        if ((alone && IsSubset(own.dtypes, spec.dtypes)) ||
            (among && IsSubset(own.dtypes, spec.dtypes | DType::kBool))) {
          return;
        }
      }
    }
    Refuse("its parts take more dtypes");
  }

  Value& At(int operand) { return known_[static_cast<size_t>(operand)]; }
  std::vector<Value> InputsOf(const Operator& op) {
    std::vector<Value> inputs;
    for (int input : op.inputs) inputs.push_back(At(input));
    return inputs;
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<Value> known_;    // by operand
  std::map<int, int> aliases_;  // operands that others take the place of
};

}  // namespace

void DecomposeOperators(Graph& graph, const PassContext& context) {
  if (context.registry == nullptr) return;
  // Parts may have parts of their own.
  constexpr int kDeepest = 8;
  for (int i = 0; i < kDeepest && Decompose(graph, context).Run(); ++i) {
  }
}

}  // namespace oort
