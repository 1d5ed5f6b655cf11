// SPDX-License-Identifier: MIT
#include "layers/pad/pad_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class PadLayer final : public Layer {
 public:
  /// `mode` is null where the operator has it as an argument.
  PadLayer(const LayerInit& init, const char* mode)
      : input_(init.Arg("input")),
        pad_(init.Arg(init.Arg("pad") >= 0 ? "pad" : "padding")),
        value_(init.Arg("value")),
        mode_(ParsePadMode(mode != nullptr ? mode : init.String("mode"))) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (args[input_].IsDeferred() || !args[pad_].IsConcrete()) return {Value::Deferred()};
    const Tensor& input = args.tensor(input_);
    return {Tensor::Meta(input.dtype(), Spec(args).Apply(input.shape()))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const Padding padding = Spec(args);
    Tensor& output = OutputTensor(outputs[0], input.dtype(), padding.Apply(input.shape()));
    PadCopy(context, input, padding, args.Has(value_) ? args[value_] : Value(0), output);
  }

 private:
  Padding Spec(const Args& args) const {
    return Padding::FromTorch(args[pad_].AsInts(), args.shape(input_).rank(), mode_);
  }

  int input_, pad_, value_;
  PadMode mode_;
};

LayerCreator CreatePad(const char* mode) {
  return [mode](const LayerInit& init) { return std::make_unique<PadLayer>(init, mode); };
}

std::vector<std::string> Names(const std::string& prefix) {
  return {prefix + "1d", prefix + "2d", prefix + "3d"};
}

/// The NHWC form pads images by numbers that are known at load.
NhwcRole PadNhwcRole(const Operator& op, int rank) {
  return rank >= 3 && op.inputs.size() == 1 ? NhwcRole::kFollows : NhwcRole::kNone;
}

/// nn.*Pad1d, 2d, 3d: their `padding` has two, four and six numbers; one number stands for all.
OperatorSchema ModuleSchema(const std::string& type, int axes, const char* doc) {
  OperatorSchema schema({type}, doc);
  schema.Tensor("input", kAllDTypes).Ints("padding", 2 * axes);
  return schema;
}

}  // namespace
}  // namespace oort

OORT_LAYERS(pad) {
  using namespace oort;
  registry.Add(OperatorSchema({"F.pad"},
                              "Pads (or, where negative, crops) the last axes by pairs of numbers")
                   .Tensor("input", kAllDTypes)
                   .Ints("pad")
                   .Dynamic()
                   .String("mode", "constant")
                   .OneOf({"constant", "reflect", "replicate", "circular"})
                   .Number("value")
                   .Nullable()
                   .Dynamic()
                   .HasNhwcForm("nhwc.pad", PadNhwcRole),
               CreatePad(nullptr));
  struct Family {
    const char* prefix;
    const char* mode;
    const char* doc;
  };
  for (const Family& family :
       {Family{"nn.ConstantPad", "constant", "Pads the last axes with a constant"},
        Family{"nn.ZeroPad", "constant", "Pads the last axes with zeros"},
        Family{"nn.ReflectionPad", "reflect", "Pads the last axes with their mirror image"},
        Family{"nn.ReplicationPad", "replicate", "Pads the last axes with their border"},
        Family{"nn.CircularPad", "circular", "Pads the last axes with their other end"}}) {
    int axes = 0;
    for (const std::string& type : Names(family.prefix)) {
      OperatorSchema schema = ModuleSchema(type, ++axes, family.doc);
      if (std::string_view(family.prefix) == "nn.ConstantPad") schema.Number("value", Value(0));
      if (axes == 2) schema.HasNhwcForm("nhwc" + type.substr(2), PadNhwcRole);
      registry.Add(std::move(schema), CreatePad(family.mode));
    }
  }
}
