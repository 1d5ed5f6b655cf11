// SPDX-License-Identifier: MIT
#include "layers/linear/in_f32.h"

#include <algorithm>

namespace oort {
namespace {

/// The arguments of a call with every floating-point input as f32.
class F32Args {
 public:
  /// `elements`: whether the converted inputs are to be read.
  F32Args(const Args& args, DType lead, bool elements) {
    const auto inputs = args.inputs();
    converted_.reserve(inputs.size());  // pointers into it must stay valid
    for (const Value* input : inputs) inputs_.push_back(Convert(*input, lead, elements));
    const auto replaced = [&](const Value* value) {
      const auto found = std::find(inputs.begin(), inputs.end(), value);
      return found == inputs.end() ? value : inputs_[static_cast<size_t>(found - inputs.begin())];
    };
    for (int i = 0; i < args.size(); ++i) args_.push_back(replaced(&args[i]));
    for (const Value* value : args.variadic()) variadic_.push_back(replaced(value));
  }
  Args args() const { return {args_, variadic_, inputs_}; }

 private:
  const Value* Convert(const Value& input, DType lead, bool elements) {
    if (!input.IsTensor() || !IsFloat(input.AsTensor().dtype())) return &input;
    const Tensor& tensor = input.AsTensor();
    if (tensor.dtype() != lead) {
      throw Error(ErrorCode::kInvalidArgument, "expected floating-point inputs of one dtype, got " +
                                                   std::string(Name(lead)) + " and " +
                                                   std::string(Name(tensor.dtype())));
    }
    converted_.emplace_back(elements ? tensor.To(DType::kF32)
                                     : Tensor::Meta(DType::kF32, tensor.shape()));
    return &converted_.back();
  }

  std::vector<Value> converted_;
  std::vector<const Value*> args_, variadic_, inputs_;
};

class InF32Layer final : public Layer {
 public:
  InF32Layer(std::unique_ptr<Layer> layer, int lead, DTypeSet others)
      : layer_(std::move(layer)), lead_(lead), others_(others) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!Converts(args)) return layer_->Infer(args);
    const DType dtype = Lead(args).AsTensor().dtype();
    std::vector<Value> outputs = layer_->Infer(F32Args(args, dtype, false).args());
    for (Value& output : outputs) {
      output = Tensor::Meta(dtype, output.AsTensor().shape());
    }
    return outputs;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (!Converts(args)) return layer_->Forward(context, args, outputs);
    const F32Args converted(args, Lead(args).AsTensor().dtype(), true);
    std::vector<Value> results;
    for (const Value& output : outputs) {
      results.emplace_back(Tensor(DType::kF32, output.AsTensor().shape()));
    }
    layer_->Forward(context, converted.args(), results);
    for (size_t i = 0; i < results.size(); ++i) {
      CopyElements(results[i].AsTensor(), outputs[i].AsTensor());
    }
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    return Converts(args) ? std::vector<Reuse>{} : layer_->Reuses(args);
  }

  size_t Workspace(const Args& args, int threads) const override {
    if (!Converts(args)) return layer_->Workspace(args, threads);
    const F32Args converted(args, Lead(args).AsTensor().dtype(), false);
    return layer_->Workspace(converted.args(), threads);
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    if (!Converts(args)) return layer_->Work(args, outputs);
    const F32Args converted(args, Lead(args).AsTensor().dtype(), false);
    return layer_->Work(converted.args(), outputs);
  }

 private:
  bool Converts(const Args& args) const {
    const Value& lead = Lead(args);
    return lead.IsTensor() && others_.Contains(lead.AsTensor().dtype());
  }

  const Value& Lead(const Args& args) const {
    if (lead_ >= 0) return args[lead_];
    const auto inputs = args.inputs();
    const auto found = std::find_if(inputs.begin(), inputs.end(), [](const Value* input) {
      return input->IsTensor() && IsFloat(input->AsTensor().dtype());
    });
    return found == inputs.end() ? *inputs[0] : **found;
  }

  std::unique_ptr<Layer> layer_;
  int lead_;
  DTypeSet others_;
};

}  // namespace

LayerCreator InF32(LayerCreator creator, std::string lead, DTypeSet others) {
  return [creator = std::move(creator), lead = std::move(lead), others](const LayerInit& init) {
    return std::make_unique<InF32Layer>(creator(init), init.Arg(lead), others);
  };
}

}  // namespace oort
