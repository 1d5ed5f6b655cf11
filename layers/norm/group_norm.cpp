// SPDX-License-Identifier: MIT
#include "layers/norm/norm_common.h"
#include "layers/per_element_layer.h"

namespace oort {
namespace {

class GroupNorm : public PerElementLayer<7> {
 public:
  explicit GroupNorm(const LayerInit& init)
      : groups_(init.Int("num_groups")),
        eps_(init.Float("eps")),
        weight_(init, "weight"),
        bias_(init, "bias"),
        tables_(init.isa()) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    if (x.rank() < 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an input of rank 2 or more, got " + x.shape().ToString());
    }
    const int64_t channels = x.shape()[1];
    if (channels % groups_ != 0) {
      throw Error(ErrorCode::kInvalidArgument, "the channels of input " + x.shape().ToString() +
                                                   " do not divide into " +
                                                   std::to_string(groups_) + " groups");
    }
    weight_.CheckShape(args, {channels});
    bias_.CheckShape(args, {channels});
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const Shape& shape = x.shape();
    if (context.stream() != nullptr) {
      NormalizeGroupsOnDevice(context, x, outputs[0].AsTensor(),
                              {shape[0], shape[1], shape.Product(2, shape.rank())}, groups_, eps_,
                              weight_.OnDevice(args), bias_.OnDevice(args));
      return;
    }
    NormalizeGroups(context, tables_, x, outputs[0].AsTensor(),
                    {shape[0], shape[1], shape.Product(2, shape.rank())}, groups_, eps_,
                    weight_.As(args, DType::kF64), bias_.As(args, DType::kF64));
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }

 private:
  int64_t groups_;
  double eps_;
  NormWeight weight_, bias_;
  NormTables tables_;
};

constexpr const char* kGroupNormDoc =
    "(x - mean) / sqrt(variance + eps) * weight + bias, statistics by group of channels.";

}  // namespace
}  // namespace oort

OORT_LAYERS(group_norm) {
  registry.Add(OperatorSchema({"nn.GroupNorm"}, kGroupNormDoc)
                   .Tensor("input", kFloats)
                   .Int("num_groups")
                   .AtLeast(1)
                   .OptionalAttribute("weight")
                   .OptionalAttribute("bias")
                   .Float("eps", 1e-5)
                   .Ignored("num_channels")
                   .Ignored("affine"),
               Create<GroupNorm>());
  registry.Add(OperatorSchema({"F.group_norm"}, kGroupNormDoc)
                   .Tensor("input", kFloats)
                   .Int("num_groups")
                   .AtLeast(1)
                   .OptionalTensor("weight", kFloats)
                   .OptionalTensor("bias", kFloats)
                   .Float("eps", 1e-5),
               Create<GroupNorm>());
}

OORT_CUDA_LAYERS(group_norm) { registry.AddDevice({"nn.GroupNorm"}, DeviceType::kCuda); }
