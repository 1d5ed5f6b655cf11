// SPDX-License-Identifier: MIT
// Tuples, lists and dictionaries are lists of values. A pass dissolves those that it can; the rest
// runs here, without copying an element.
#include <algorithm>

#include "oort/layer.h"

namespace oort {
namespace {

class ConstructLayer final : public Layer {
 public:
  /// A dictionary's inputs are keys and values in turn; only the values stay.
  explicit ConstructLayer(const LayerInit& init)
      : step_(init.type() == "prim::DictConstruct" ? 2 : 1) {}

  std::vector<Value> Infer(const Args& args) const override { return {Value(List(args))}; }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    outputs[0] = List(args);
  }

 private:
  Value::List List(const Args& args) const {
    Value::List list;
    for (size_t i = step_ - 1; i < args.variadic().size(); i += step_) {
      list.push_back(*args.variadic()[i]);
    }
    return list;
  }
  size_t step_;
};

class UnpackLayer final : public Layer {
 public:
  explicit UnpackLayer(const LayerInit& init) : count_(init.op().outputs.size()) {}

  std::vector<Value> Infer(const Args& args) const override {
    std::vector<Value> items = Items(args);
    // Tensors are handed on as they are, which only Forward can do.
    for (Value& item : items) {
      if (item.IsTensor() || item.IsList()) item = Value::Deferred();
    }
    return items;
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    std::vector<Value> items = Items(args);
    std::move(items.begin(), items.end(), outputs.begin());
  }

 private:
  /// What has one part only comes as itself.
  std::vector<Value> Items(const Args& args) const {
    std::vector<Value> items = args[0].IsList() ? args[0].AsList() : Value::List{args[0]};
    if (items.size() != count_) {
      throw Error(ErrorCode::kInvalidArgument, "expected " + std::to_string(count_) +
                                                   " values to unpack, got " +
                                                   std::to_string(items.size()));
    }
    return items;
  }
  size_t count_;
};

class ConstantLayer final : public Layer {
 public:
  explicit ConstantLayer(const LayerInit& init) : value_(init.Constant("value")) {}
  std::vector<Value> Infer(const Args&) const override { return {value_}; }
  void Forward(const Context&, const Args&, std::span<Value> outputs) const override {
    outputs[0] = value_;
  }

 private:
  Value value_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(tuple) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"prim::TupleConstruct", "prim::ListConstruct"}, "Its inputs as a list")
          .Tensors("values", kAllDTypes),
      Create<ConstructLayer>());
  registry.Add(OperatorSchema({"prim::DictConstruct"}, "The values of a dictionary as a list")
                   .Tensors("items", kAllDTypes),
               Create<ConstructLayer>());
  registry.Add(OperatorSchema({"prim::TupleUnpack", "prim::ListUnpack"}, "The items of a list")
                   .Any("list")
                   .Dynamic()
                   .Outputs(1, -1),
               Create<UnpackLayer>());
  registry.Add(OperatorSchema({"prim::Constant"}, "A value of the model").Any("value", Value()),
               Create<ConstantLayer>());
}
