// SPDX-License-Identifier: MIT
#include "layers/rotary/rotary.h"
#include "cuda/memory.h"
#include "layers/rotary/device_angles.h"

namespace oort {
namespace {

class CudaRotaryAngles final : public RotaryAnglesBase {
 public:
  explicit CudaRotaryAngles(const LayerInit& init) : RotaryAnglesBase(init) {
    if (original_context_ > 0) {
      throw Error(ErrorCode::kUnsupported, "angles that depend on a sequence's length");
    }
    const int64_t pairs = static_cast<int64_t>(frequencies_.size());
    on_device_ = cuda::ToDevice(Tensor::From(std::span<const float>(frequencies_), Shape{pairs}),
                                init.device());
  }

  std::vector<Value> Infer(const Args& args) const override {
    if (args.tensor(positions_).dtype() != DType::kI32) {
      throw Error(ErrorCode::kUnsupported, "expected positions of i32 on the GPU, got " +
                                               args.tensor(positions_).ToString());
    }
    return RotaryAnglesBase::Infer(args);
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& positions = args.tensor(positions_);
    cuda::RotaryAngles(*context.stream(), positions.data<int32_t>(), positions.elements(),
                       on_device_.data<float>(), on_device_.elements(), magnitude_,
                       outputs[0].AsTensor().data<float>());
  }

 private:
  Tensor on_device_;
};

class CudaRotary final : public RotaryBase {
 public:
  using RotaryBase::RotaryBase;

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& angles = args.tensor(angles_);
    for (int i = 0; i < 2; ++i) {
      const Tensor& from = args.tensor(i == 0 ? query_ : key_);
      cuda::TurnHeads(*context.stream(), from.data<float>(),
                      outputs[static_cast<size_t>(i)].AsTensor().data<float>(), from.dim(0),
                      from.dim(1), head_dim_, angles.data<float>(), angles.dim(2), interleaved_);
    }
  }
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(rotary) {
  using namespace oort;
  registry.AddDevice({"oort.RotaryAngles"}, DeviceType::kCuda, Create<CudaRotaryAngles>());
  registry.AddDevice({"oort.Rotary"}, DeviceType::kCuda, Create<CudaRotary>());
}
