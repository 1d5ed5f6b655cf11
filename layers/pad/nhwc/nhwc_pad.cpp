// SPDX-License-Identifier: MIT
// Padding of NHWC images: numbers are those of the NCHW operators, from the width backwards.
#include <algorithm>

#include "layers/layout/axes.h"
#include "layers/pad/pad_copy.h"

namespace oort {
namespace {

class NhwcPad final : public Layer {
 public:
  /// `mode` is null where the operator has it as an argument.
  NhwcPad(const LayerInit& init, const char* mode)
      : pad_(init.Arg(init.Arg("pad") >= 0 ? "pad" : "padding")),
        value_(init.Arg("value")),
        mode_(ParsePadMode(mode != nullptr ? mode : init.String("mode"))) {}

  LayerTraits Traits() const override { return {.either_device = true}; }

  std::vector<Value> Infer(const Args& args) const override {
    // What cannot be padded is told by the axes that the model counts.
    const Shape padded = NchwSpec(args).Apply(ToNchw(args.shape(0)));
    return {Tensor::Meta(args.tensor(0).dtype(), ToNhwc(padded))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    PadCopy(context, args.tensor(0), Spec(args), args.Has(value_) ? args[value_] : Value(0),
            outputs[0].AsTensor());
  }

 private:
  Padding NchwSpec(const Args& args) const {
    const int rank = args.shape(0).rank();
    if (rank < 3) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an image (…, H, W, C), got " + args.shape(0).ToString());
    }
    return Padding::FromTorch(args[pad_].AsInts(), rank, mode_);
  }

  Padding Spec(const Args& args) const {
    Padding padding = NchwSpec(args);
    const int rank = args.shape(0).rank();
    const auto channels_last = [&](auto& extents) {
      const auto end = extents.begin() + rank;
      std::rotate(end - 3, end - 2, end);
    };
    channels_last(padding.before);
    channels_last(padding.after);
    return padding;
  }

  int pad_, value_;
  PadMode mode_;
};

LayerCreator CreateNhwcPad(const char* mode) {
  return [mode](const LayerInit& init) { return std::make_unique<NhwcPad>(init, mode); };
}

struct NhwcPadForm {
  const char* type;
  const char* mode;
};
constexpr NhwcPadForm kNhwcPads[] = {{"nhwc.ZeroPad2d", "constant"},
                                     {"nhwc.ConstantPad2d", "constant"},
                                     {"nhwc.ReflectionPad2d", "reflect"},
                                     {"nhwc.ReplicationPad2d", "replicate"},
                                     {"nhwc.CircularPad2d", "circular"}};

}  // namespace
}  // namespace oort

OORT_LAYERS(nhwc_pad) {
  using namespace oort;
  registry.Add(OperatorSchema({"nhwc.pad"}, "F.pad of (…, H, W, C). Made by the NHWC pass")
                   .Tensor("input", kAllDTypes)
                   .Ints("pad")
                   .String("mode", "constant")
                   .OneOf({"constant", "reflect", "replicate", "circular"})
                   .Number("value")
                   .Nullable()
                   .KeepsDType()
                   .F16OnCpu(),
               CreateNhwcPad(nullptr));
  for (const NhwcPadForm& form : kNhwcPads) {
    const std::string type = form.type;
    OperatorSchema schema(
        {type}, "nn" + type.substr(type.find('.')) + " of (…, H, W, C). Made by the NHWC pass");
    schema.Tensor("input", kAllDTypes).Ints("padding", 4).KeepsDType().F16OnCpu();
    if (type == "nhwc.ConstantPad2d") schema.Number("value", Value(0));
    registry.Add(std::move(schema), CreateNhwcPad(form.mode));
  }
}

OORT_CUDA_LAYERS(nhwc_pad) {
  registry.AddDevice({"nhwc.pad"}, oort::DeviceType::kCuda);
  for (const oort::NhwcPadForm& form : oort::kNhwcPads) {
    registry.AddDevice({form.type}, oort::DeviceType::kCuda);
  }
}
