// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "cuda/memory.h"
#include "layers/norm/norm_common.h"
#include "layers/per_element_layer.h"

namespace oort {
namespace {

class BatchNorm : public PerElementLayer<2> {
 public:
  /// `rank` is that of the input, 0 for any.
  BatchNorm(const LayerInit& init, int rank)
      : rank_(rank),
        eps_(init.Float("eps")),
        training_(init.Arg("training") >= 0 && init.Bool("training")),
        mean_(init, "running_mean"),
        variance_(init, "running_var"),
        weight_(init, "weight"),
        bias_(init, "bias"),
        tables_(init.isa()) {
    const bool constant =
        mean_.IsConstant() && variance_.IsConstant() && weight_.IsConstant() && bias_.IsConstant();
    const Tensor mean = ReadWeight<double>(init, "running_mean"),
                 variance = ReadWeight<double>(init, "running_var");
    // The weights are folded here only if they all fit. If they do not, Infer reports why.
    const bool usable = constant && !training_ && mean.defined() && variance.defined();
    if (!usable && init.device().type != DeviceType::kCpu) {
      throw Error(ErrorCode::kUnsupported, "computes its statistics, or gets them as inputs");
    }
    if (!usable) return;
    const Tensor weight = ReadWeight<double>(init, "weight"),
                 bias = ReadWeight<double>(init, "bias");
    for (const Tensor* part : {&variance, &weight, &bias}) {
      if (part->defined() && part->elements() != mean.elements()) return;
    }
    folded_ = StoredStatistics(mean, variance, eps_);
    AddWeights(*folded_, weight, bias);
    if (init.device().type != DeviceType::kCpu) Upload(init.device());
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    const bool fits = rank_ == 0   ? x.rank() >= 2
                      : rank_ == 3 ? x.rank() == 2 || x.rank() == 3  // BatchNorm1d
                                   : x.rank() == rank_;
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input of rank " +
                                                   (rank_ == 0   ? "2 or more"
                                                    : rank_ == 3 ? "2 or 3"
                                                                 : std::to_string(rank_)) +
                                                   ", got " + x.shape().ToString());
    }
    const Shape channels{x.shape()[1]};
    for (const NormWeight* part : {&mean_, &variance_, &weight_, &bias_}) {
      part->CheckShape(args, channels);
    }
    if (mean_.Has(args) != variance_.Has(args)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "running_mean and running_var must both be there, or neither");
    }
    const ChannelView view = View(x.shape());
    if (UsesBatch(args) && view.outer * view.inner == 1) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "batch statistics need more than one value a channel, got input " + x.shape().ToString());
    }
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const ChannelView view = View(x.shape());
    Tensor& y = outputs[0].AsTensor();
    if (context.stream() != nullptr) {
      if (x.elements() == 0) return;
      ApplyChannelsOnDevice(*context.stream(), x, y, view.channels, view.inner, uploaded_);
      return;
    }
    if (folded_) return ApplyChannels(context, tables_, x, y, view, *folded_);
    ChannelAffine affine =
        UsesBatch(args)
            ? BatchStatistics(context, tables_, x, view, eps_)
            : StoredStatistics(mean_.As(args, DType::kF64), variance_.As(args, DType::kF64), eps_);
    AddWeights(affine, weight_.As(args, DType::kF64), bias_.As(args, DType::kF64));
    ApplyChannels(context, tables_, x, y, view, affine);
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  static ChannelView View(const Shape& shape) {
    return {shape[0], shape[1], shape.Product(2, shape.rank())};
  }

  void Upload(Device device) {
    const int64_t channels = static_cast<int64_t>(folded_->center.size());
    Tensor all(DType::kF64, {3, channels});
    double* to = all.data<double>();
    for (const ScratchVector<double>* part : {&folded_->center, &folded_->scale, &folded_->shift}) {
      to = std::copy(part->begin(), part->end(), to);
    }
    uploaded_ = cuda::ToDevice(all, device);
  }

  bool UsesBatch(const Args& args) const { return training_ || !mean_.Has(args); }

  int rank_;
  double eps_;
  bool training_;
  NormWeight mean_, variance_, weight_, bias_;
  NormTables tables_;
  std::optional<ChannelAffine> folded_;  // where everything is known at load
  Tensor uploaded_;                      // the same on the GPU, where the layer is there
};

LayerCreator CreateBatchNorm(int rank) {
  return [rank](const LayerInit& init) { return std::make_unique<BatchNorm>(init, rank); };
}

constexpr const char* kBatchNormDoc =
    "(x - mean) / sqrt(variance + eps) * weight + bias, by channel.";

}  // namespace
}  // namespace oort

OORT_LAYERS(batch_norm) {
  for (int rank = 1; rank <= 3; ++rank) {
    registry.Add(StatisticsModuleSchema("nn.BatchNorm" + std::to_string(rank) + "d", kBatchNormDoc)
                     .KeepsDType(),
                 CreateBatchNorm(rank + 2));
  }
  registry.Add(OperatorSchema({"F.batch_norm"}, kBatchNormDoc)
                   .Tensor("input", kFloats)
                   .OptionalTensor("running_mean", kFloats)
                   .OptionalTensor("running_var", kFloats)
                   .OptionalTensor("weight", kFloats)
                   .OptionalTensor("bias", kFloats)
                   .Bool("training", false)
                   .Ignored("momentum")
                   .Float("eps", 1e-5),
               CreateBatchNorm(0));
}

OORT_CUDA_LAYERS(batch_norm) {
  registry.AddDevice({"nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d"}, DeviceType::kCuda);
}
