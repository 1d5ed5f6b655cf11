// SPDX-License-Identifier: MIT
#include "layers/composite/float_dtypes.h"

#include <algorithm>
#include <deque>

#include "graph/open_attributes.h"

namespace oort {
namespace {

bool IsHalf(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

/// Computed by the layer for f32.
bool IsMain(DType dtype) { return dtype == DType::kF32 || IsHalf(dtype); }

bool IsNumber(const Tensor& tensor) { return tensor.dtype() != DType::kBool; }

bool IsHalf(const Value& value) { return value.IsTensor() && IsHalf(value.AsTensor().dtype()); }

Value Widened(const Value& value, bool elements) {
  const Tensor& tensor = value.AsTensor();
  return elements && tensor.has_data() ? tensor.To(DType::kF32)
                                       : Tensor::Meta(DType::kF32, tensor.shape());
}

/// What is known of the arguments when the layer is made, one for each.
struct ConstantArgs {
  std::vector<bool> is_constant;
  std::vector<bool> is_weight;  ///< an attribute: the layer has converted it itself
  std::vector<Value> widened;   ///< other constants of 16 bits as f32, None elsewhere
};

/// The arguments of a call with those of 16 bits as f32, with or without their elements.
class WideArgs {
 public:
  WideArgs(const Args& args, const ConstantArgs& constants, bool elements) : elements_(elements) {
    for (int i = 0; i < args.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      const Value& constant = constants.widened[at];
      if (!constant.IsNone()) known_.emplace_back(&args[i], &constant);
      args_.push_back(constants.is_weight[at] ? &args[i] : Wide(&args[i]));
    }
    for (const Value* value : args.variadic()) variadic_.push_back(Wide(value));
    for (const Value* value : args.inputs()) inputs_.push_back(Wide(value));
  }
  Args args() const { return Args(args_, variadic_, inputs_); }

 private:
  /// An operand may stand in several places.
  const Value* Wide(const Value* value) {
    if (!IsHalf(*value)) return value;
    for (const auto& [from, to] : known_) {
      if (from == value) return to;
    }
    known_.emplace_back(value, &made_.emplace_back(Widened(*value, elements_)));
    return known_.back().second;
  }

  bool elements_;
  std::deque<Value> made_;  // which keeps its elements where they are
  std::vector<std::pair<const Value*, const Value*>> known_;
  std::vector<const Value*> args_, variadic_, inputs_;
};

class FloatDTypesLayer final : public Layer, public PacksOpenAttributes {
 public:
  FloatDTypesLayer(const LayerInit& init, const OperatorSchema& schema, const LayerCreator& main,
                   const LayerCreator& plain, const std::string& mask)
      : mask_(mask.empty() ? -1 : schema.Find(mask)),
        one_dtype_(plain != nullptr),
        free_inputs_(schema.free_inputs()) {
    ReadConstants(init, schema);
    const bool holds_plain = one_dtype_ && held_plain_ != DType::kNull;
    if (!holds_plain) main_ = main(init);
    native_f16_ = main_ != nullptr && main_->Traits().native_f16;
    if (holds_plain || (one_dtype_ && !holds_main_)) plain_ = plain(init);
  }

  std::vector<Value> Infer(const Args& args) const override {
    const DType dtype = DTypeOf(args);
    CheckDTypes(args, dtype);
    if (!Widens(dtype)) return LayerOf(dtype).Infer(args);
    std::vector<Value> results = main_->Infer(WideArgs(args, constants_, false).args());
    for (Value& result : results) {
      const bool rounded = result.IsTensor() && result.AsTensor().dtype() == DType::kF32;
      if (rounded) result = Tensor::Meta(dtype, result.AsTensor().shape());
    }
    return results;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const DType dtype = DTypeOf(args);
    if (!Widens(dtype)) return LayerOf(dtype).Forward(context, args, outputs);
    const WideArgs wide(args, constants_, true);
    std::vector<Value> results(outputs.begin(), outputs.end());
    for (Value& result : results) {
      if (IsHalf(result)) result = Tensor(DType::kF32, result.AsTensor().shape());
    }
    main_->Forward(context, wide.args(), results);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (IsHalf(outputs[i])) CopyElements(results[i].AsTensor(), outputs[i].AsTensor());
    }
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    const DType dtype = DTypeOf(args);
    return Widens(dtype) ? std::vector<Reuse>{} : LayerOf(dtype).Reuses(args);
  }

  size_t Workspace(const Args& args, int threads) const override {
    const DType dtype = DTypeOf(args);
    if (!Widens(dtype)) return LayerOf(dtype).Workspace(args, threads);
    return main_->Workspace(WideArgs(args, constants_, false).args(), threads);
  }

  bool Packs(int argument) const override {
    return (main_ == nullptr || main_->Packs(argument)) &&
           (plain_ == nullptr || plain_->Packs(argument));
  }

  bool PacksAttributes() const override { return PacksThem(main_) && PacksThem(plain_); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    const DType dtype = DTypeOf(args);
    if (!Widens(dtype)) return LayerOf(dtype).Work(args, outputs);
    Cost cost = main_->Work(WideArgs(args, constants_, false).args(), outputs);
    cost.bytes = Layer::Work(args, outputs).bytes;
    return cost;
  }

 private:
  static bool PacksThem(const std::unique_ptr<Layer>& layer) {
    if (layer == nullptr) return true;
    const auto* open = dynamic_cast<const PacksOpenAttributes*>(layer.get());
    return open != nullptr && open->PacksAttributes();
  }

  void ReadConstants(const LayerInit& init, const OperatorSchema& schema) {
    for (const ArgSpec& spec : schema.args()) {
      const std::string name = spec.attribute ? "@" + spec.name : spec.name;
      const bool tensor = spec.type == ArgType::kTensor && !spec.variadic;
      const bool constant = tensor && init.IsConstant(name) && init.Constant(name).IsTensor();
      constants_.is_constant.push_back(constant);
      constants_.is_weight.push_back(constant && spec.attribute);
      Value& widened = constants_.widened.emplace_back();
      if (!constant) continue;
      const Value& value = init.Constant(name);
      if (static_cast<int>(constants_.widened.size()) - 1 != mask_) Hold(value.AsTensor());
      if (spec.attribute || !IsHalf(value)) continue;
      widened = Widened(value, true);
      has_widened_ = true;
    }
    for (const auto& [name, tensor] : init.op().attributes) Hold(tensor);
  }

  void Hold(const Tensor& tensor) {
    if (IsMain(tensor.dtype())) {
      holds_main_ = true;
    } else if (IsNumber(tensor)) {
      held_plain_ = tensor.dtype();
    }
  }

  /// Calls visit(value) for each operand that holds numbers and is no constant.
  template <typename Visitor>
  void ForNumbers(const Args& args, const Visitor& visit) const {
    for (int i = 0; i < args.size(); ++i) {
      const bool operand = !constants_.is_constant[static_cast<size_t>(i)] && !IsFreeMask(args, i);
      if (operand) VisitNumbers(args[i], visit);
    }
    for (const Value* value : free_inputs_ ? args.inputs() : args.variadic()) {
      VisitNumbers(*value, visit);
    }
  }
  bool IsFreeMask(const Args& args, int i) const {
    return i == mask_ && args[i].IsTensor() && args.tensor(i).dtype() == DType::kF32;
  }
  template <typename Visitor>
  static void VisitNumbers(const Value& value, const Visitor& visit) {
    if (value.IsTensor() && IsNumber(value.AsTensor())) visit(value.AsTensor());
  }

  /// That of the first operand that holds numbers, of the constants where there is none.
  DType DTypeOf(const Args& args) const {
    DType dtype = DType::kNull;
    ForNumbers(args, [&](const Tensor& tensor) {
      if (dtype == DType::kNull) dtype = tensor.dtype();
    });
    if (dtype != DType::kNull) return dtype;
    for (int i = 0; i < args.size() && dtype == DType::kNull; ++i) {
      VisitNumbers(args[i], [&](const Tensor& tensor) { dtype = tensor.dtype(); });
    }
    return dtype;
  }

  void CheckDTypes(const Args& args, DType dtype) const {
    if (one_dtype_ && (IsMain(dtype) ? main_ : plain_) == nullptr) {
      Fail(IsMain(dtype)
               ? "an input of dtype " + std::string(Name(held_plain_)) + ", as the weights are"
               : "an input of the dtype of the weights",
           dtype);
    }
    if (!one_dtype_ && !Widens(dtype)) return;
    CheckConstants(args, dtype);
    ForNumbers(args, [&](const Tensor& tensor) {
      if (tensor.dtype() == dtype) return;
      Fail("tensors of one dtype, " + std::string(Name(dtype)), tensor.dtype());
    });
  }
  /// Constants of f32 and 16 bits serve each other's layers; others must be what the operands are.
  void CheckConstants(const Args& args, DType dtype) const {
    for (int i = 0; i < args.size(); ++i) {
      if (!constants_.is_constant[static_cast<size_t>(i)] || i == mask_) continue;
      VisitNumbers(args[i], [&](const Tensor& tensor) {
        if (tensor.dtype() == dtype || (IsMain(dtype) && IsMain(tensor.dtype()))) return;
        Fail("tensors of one dtype, " + std::string(Name(dtype)), tensor.dtype());
      });
    }
  }
  [[noreturn]] static void Fail(const std::string& expected, DType got) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected " + expected + ", got dtype " + std::string(Name(got)));
  }

  bool Widens(DType dtype) const {
    if (native_f16_ && dtype == DType::kF16) return false;
    return IsHalf(dtype) || (dtype == DType::kF32 && has_widened_);
  }
  const Layer& LayerOf(DType dtype) const {
    return !IsMain(dtype) && plain_ != nullptr ? *plain_ : *main_;
  }

  int mask_;
  bool one_dtype_, free_inputs_, has_widened_ = false, native_f16_ = false;
  std::unique_ptr<Layer> main_, plain_;
  // What the model holds.
  bool holds_main_ = false;
  DType held_plain_ = DType::kNull;
  ConstantArgs constants_;
};

}  // namespace

LayerCreator WithHalves(const OperatorSchema& schema, LayerCreator creator) {
  return WithFloats(schema, std::move(creator), nullptr);
}

LayerCreator WithFloats(const OperatorSchema& schema, LayerCreator f32, LayerCreator plain,
                        std::string mask) {
  return [schema, f32 = std::move(f32), plain = std::move(plain),
          mask = std::move(mask)](const LayerInit& init) {
    return std::make_unique<FloatDTypesLayer>(init, schema, f32, plain, mask);
  };
}

}  // namespace oort
