// SPDX-License-Identifier: MIT
// From tensors to numbers and back: item, Int, numel, equal and their relatives.
#include <algorithm>
#include <cmath>

#include "layers/composite/decomposition.h"
#include "layers/shape/scalar_bytes.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// The only element of a tensor as a number of some kind; numbers are converted alike.
class ToNumberLayer final : public Layer {
 public:
  enum Kind { kAny, kBool, kInt, kFloat };
  explicit ToNumberLayer(Kind kind) : kind_(kind) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (args[0].IsTensor() && args.tensor(0).elements() != 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected one element, got " + args.tensor(0).ToString());
    }
    if (!args[0].IsConcrete()) return {Value::Deferred()};
    return {NumberOf(args[0])};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    outputs[0] = NumberOf(args[0]);
  }

 private:
  Value NumberOf(const Value& value) const {
    const bool tensor = value.IsTensor();
    const DType dtype = tensor ? value.AsTensor().dtype() : DType::kNull;
    const bool whole = tensor ? IsInteger(dtype) || dtype == DType::kBool : !value.IsFloat();
    switch (kind_) {
      case kBool:
        return tensor ? value.AsTensor().To(DType::kBool).Item() != 0 : value.AsFloat() != 0;
      case kFloat: return value.AsFloat();
      case kInt: return whole ? value.AsInt() : Truncated(value.AsFloat());
      default: break;
    }
    if (!tensor) return value;
    if (dtype == DType::kBool) return value.AsInt() != 0;
    return whole ? Value(value.AsInt()) : Value(value.AsFloat());
  }

  static int64_t Truncated(double value) {
    if (!(value > -9.2e18 && value < 9.2e18)) {
      throw Error(ErrorCode::kInvalidArgument, "no int is " + Value(value).ToString());
    }
    return static_cast<int64_t>(value);
  }

  Kind kind_;
};

/// The number of elements, or of axes, or of items in a list.
class CountLayer final : public Layer {
 public:
  enum Kind { kElements, kAxes, kItems };
  explicit CountLayer(Kind kind) : kind_(kind) {}

  LayerTraits Traits() const override { return {.shapes_only = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (args[0].IsDeferred()) return {Value::Deferred()};
    return {CountOf(args[0])};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    outputs[0] = CountOf(args[0]);
  }

 private:
  int64_t CountOf(const Value& value) const {
    if (kind_ == kItems && value.IsList()) return static_cast<int64_t>(value.AsList().size());
    const Tensor& tensor = value.AsTensor();
    if (kind_ == kElements) return tensor.elements();
    if (kind_ == kAxes) return tensor.rank();
    if (tensor.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "a scalar has no length");
    return tensor.shape()[0];
  }
  Kind kind_;
};

/// An item of a list.
class ItemOfListLayer final : public Layer {
 public:
  explicit ItemOfListLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (args[0].IsDeferred() || !args[1].IsConcrete()) return {Value::Deferred()};
    const Value& item = At(args);
    return {item.IsTensor() || item.IsList() ? Value::Deferred() : item};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    outputs[0] = At(args);
  }

 private:
  static const Value& At(const Args& args) {
    const Value::List& list = args[0].AsList();
    const int64_t size = static_cast<int64_t>(list.size());
    const int64_t index = args[1].AsInt() + (args[1].AsInt() < 0 ? size : 0);
    if (index < 0 || index >= size) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a list of " + std::to_string(size) + " has no item " + args[1].ToString());
    }
    return list[static_cast<size_t>(index)];
  }
};

/// Whether two tensors are equal, or close, as a bool that is no tensor.
Decomposition Agree(bool exactly) {
  return [exactly](const Decomposer& call, const Args& args) -> std::vector<Value> {
    if (exactly && !(args.shape(0) == args.shape(1))) return {Value(false)};
    const Value same = exactly ? call.Formula("eq(@0,@1)", {args[0], args[1]})
                               : call("torch.isclose", {{"input", args[0]},
                                                        {"other", args[1]},
                                                        {"rtol", args[2]},
                                                        {"atol", args[3]},
                                                        {"equal_nan", args[4]}});
    const Value all = call("torch.all", {{"input", same}});
    if (!call.computes()) return {Value::Deferred()};
    return {Value(all.AsTensor().Item() != 0)};
  };
}

/// A number as a tensor of rank 0.
class ToTensorLayer final : public Layer {
 public:
  explicit ToTensorLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[0].IsNumber()) return {Value::Deferred()};
    return {Tensor::Meta(DTypeOf(args[0]), Shape{})};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    if (args[0].IsTensor()) {
      outputs[0] = args[0];
      return;
    }
    const DType dtype = DTypeOf(args[0]);
    Tensor& output = OutputTensor(outputs[0], dtype, Shape{});
    std::copy_n(ScalarBytes(args[0], dtype).data(), ItemSize(dtype), output.raw());
  }

 private:
  static DType DTypeOf(const Value& value) {
    if (value.IsBool()) return DType::kBool;
    if (value.IsComplex()) return DType::kC64;
    return value.IsInt() ? DType::kI64 : DType::kF32;
  }
};

template <typename L>
LayerCreator CreateOfKind(typename L::Kind kind) {
  return [kind](const LayerInit&) { return std::make_unique<L>(kind); };
}

OperatorSchema NumberSchema(std::vector<std::string> types, const char* doc) {
  return OperatorSchema(std::move(types), doc).Tensor("input", kReals);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(scalars) {
  using namespace oort;
  registry.Add(NumberSchema({"aten::item", "Tensor.item", "aten::ScalarImplicit"},
                            "the only element as a number"),
               CreateOfKind<ToNumberLayer>(ToNumberLayer::kAny));
  registry.Add(NumberSchema({"aten::Bool"}, "the only element as a bool"),
               CreateOfKind<ToNumberLayer>(ToNumberLayer::kBool));
  registry.Add(NumberSchema({"aten::Int", "aten::IntImplicit"}, "the only element as an int"),
               CreateOfKind<ToNumberLayer>(ToNumberLayer::kInt));
  registry.Add(NumberSchema({"aten::Float", "aten::FloatImplicit"}, "the only element as a float"),
               CreateOfKind<ToNumberLayer>(ToNumberLayer::kFloat));
  registry.Add(OperatorSchema({"aten::numel", "Tensor.numel"}, "the number of elements")
                   .Tensor("input", kAllDTypes),
               CreateOfKind<CountLayer>(CountLayer::kElements));
  registry.Add(
      OperatorSchema({"aten::dim", "Tensor.dim"}, "the number of axes").Tensor("input", kAllDTypes),
      CreateOfKind<CountLayer>(CountLayer::kAxes));
  registry.Add(OperatorSchema({"aten::len"}, "the extent of the first axis, or of a list")
                   .Any("input")
                   .Dynamic(),
               CreateOfKind<CountLayer>(CountLayer::kItems));
  registry.Add(OperatorSchema({"aten::__getitem__"}, "an item of a list")
                   .Any("list")
                   .Dynamic()
                   .Int("index")
                   .Dynamic(),
               Create<ItemOfListLayer>());
  AddDecomposition(registry,
                   OperatorSchema({"aten::equal"}, "whether shapes and elements are the same")
                       .Tensor("input", kReals)
                       .Tensor("other", kReals),
                   Agree(true));
  AddDecomposition(registry,
                   OperatorSchema({"aten::allclose"}, "whether all elements are close")
                       .Tensor("input", kReals)
                       .Tensor("other", kReals)
                       .Float("rtol", 1e-5)
                       .Float("atol", 1e-8)
                       .Bool("equal_nan", false),
                   Agree(false));
  registry.Add(OperatorSchema({"prim::NumToTensor"}, "a number as a tensor of rank 0")
                   .Any("value")
                   .Dynamic(),
               Create<ToTensorLayer>());
}
