// SPDX-License-Identifier: MIT
#include "layers/norm/norm_common.h"
#include "layers/per_element_layer.h"

namespace oort {
namespace {

class InstanceNorm : public PerElementLayer<7> {
 public:
  /// `spatial_rank` 0 stands for any: the functional form, which is always batched.
  InstanceNorm(const LayerInit& init, int spatial_rank)
      : spatial_rank_(spatial_rank),
        eps_(init.Float("eps")),
        // The function takes running statistics, but normalizes by those of its input, unless
        // it is told not to, in the form that pnnx leaves as ATen's.
        uses_stored_(spatial_rank > 0 ||
                     (init.Arg("use_input_stats") >= 0 && !init.Bool("use_input_stats"))),
        mean_(init, "running_mean"),
        variance_(init, "running_var"),
        weight_(init, "weight"),
        bias_(init, "bias"),
        tables_(init.isa()) {
    const bool may_have_mean = !mean_.IsConstant() || mean_.constant().defined();
    if (init.device().type != DeviceType::kCpu && uses_stored_ && may_have_mean) {
      throw Error(ErrorCode::kUnsupported, "uses stored statistics");
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    const ChannelView view = View(x.shape());
    for (const NormWeight* part : {&mean_, &variance_, &weight_, &bias_}) {
      part->CheckShape(args, {view.channels});
    }
    if (mean_.Has(args) != variance_.Has(args)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "running_mean and running_var must both be there, or neither");
    }
    if (!Stored(args) && view.inner == 1) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "expected more than one element in each channel, got input " + x.shape().ToString());
    }
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    Tensor& y = outputs[0].AsTensor();
    const ChannelView view = View(x.shape());
    if (context.stream() != nullptr) {
      NormalizeGroupsOnDevice(context, x, y, view, view.channels, eps_, weight_.OnDevice(args),
                              bias_.OnDevice(args));
      return;
    }
    const Tensor weight = weight_.As(args, DType::kF64), bias = bias_.As(args, DType::kF64);
    if (Stored(args)) {
      ChannelAffine affine =
          StoredStatistics(mean_.As(args, DType::kF64), variance_.As(args, DType::kF64), eps_);
      AddWeights(affine, weight, bias);
      ApplyChannels(context, tables_, x, y, view, affine);
    } else {
      NormalizeGroups(context, tables_, x, y, view, view.channels, eps_, weight, bias);
    }
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  bool Stored(const Args& args) const { return uses_stored_ && mean_.Has(args); }

  ChannelView View(const Shape& shape) const {
    const int rank = shape.rank();
    if (spatial_rank_ == 0 ? rank < 2 : rank != spatial_rank_ + 1 && rank != spatial_rank_ + 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an input of rank " +
                      (spatial_rank_ == 0 ? "2 or more"
                                          : std::to_string(spatial_rank_ + 1) + " or " +
                                                std::to_string(spatial_rank_ + 2)) +
                      ", got " + shape.ToString());
    }
    const bool batched = spatial_rank_ == 0 || rank == spatial_rank_ + 2;
    const int channel = batched ? 1 : 0;
    return {batched ? shape[0] : 1, shape[channel], shape.Product(channel + 1, rank)};
  }

  int spatial_rank_;
  double eps_;
  bool uses_stored_;
  NormWeight mean_, variance_, weight_, bias_;
  NormTables tables_;
};

LayerCreator CreateInstanceNorm(int spatial_rank) {
  return [spatial_rank](const LayerInit& init) {
    return std::make_unique<InstanceNorm>(init, spatial_rank);
  };
}

constexpr const char* kInstanceNormDoc =
    "(x - mean) / sqrt(variance + eps) * weight + bias, statistics by sample and channel.";

}  // namespace
}  // namespace oort

OORT_LAYERS(instance_norm) {
  for (int rank = 1; rank <= 3; ++rank) {
    registry.Add(
        StatisticsModuleSchema("nn.InstanceNorm" + std::to_string(rank) + "d", kInstanceNormDoc),
        CreateInstanceNorm(rank));
  }
  registry.Add(OperatorSchema({"F.instance_norm"}, kInstanceNormDoc)
                   .Tensor("input", kFloats)
                   .OptionalTensor("running_mean", kFloats)
                   .OptionalTensor("running_var", kFloats)
                   .OptionalTensor("weight", kFloats)
                   .OptionalTensor("bias", kFloats)
                   .Float("eps", 1e-5),
               CreateInstanceNorm(0));
  registry.Add(OperatorSchema({"aten::instance_norm"}, kInstanceNormDoc)
                   .Tensor("input", kFloats)
                   .OptionalTensor("weight", kFloats)
                   .OptionalTensor("bias", kFloats)
                   .OptionalTensor("running_mean", kFloats)
                   .OptionalTensor("running_var", kFloats)
                   .Bool("use_input_stats")
                   .Ignored("momentum")
                   .Float("eps")
                   .Ignored("cudnn_enabled"),
               CreateInstanceNorm(0));
}

OORT_CUDA_LAYERS(instance_norm) {
  registry.AddDevice({"nn.InstanceNorm1d", "nn.InstanceNorm2d", "nn.InstanceNorm3d"},
                     DeviceType::kCuda);
}
