// SPDX-License-Identifier: MIT
#include "cpu/sampling.h"
#include "layers/reduction/device_token_argmax.h"
#include "layers/reduction/token_rows.h"

namespace oort {
namespace {

/// The token that greedy sampling picks: on a GPU, logits need not come to the host for it.
class Argmax final : public Layer {
 public:
  explicit Argmax(const LayerInit& init) : kernels_(SamplingKernelsFor(init.isa())) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    return InferTokenOfRows(args.tensor(0));
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    Tensor& y = outputs[0].AsTensor();
    if (context.stream() != nullptr) return TokenArgmaxOnDevice(*context.stream(), x, y);
    const int64_t count = x.dim(x.rank() - 1);
    const float* logits = x.data<float>();
    int32_t* tokens = y.data<int32_t>();
    context.ParallelFor(y.elements(), 65536 / (count + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        tokens[row] = ArgmaxOf(kernels_, logits + row * count, count);
      }
    });
  }

 private:
  const SamplingKernels& kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(token_argmax) {
  using namespace oort;
  OperatorSchema schema({"oort.Argmax"},
                        "The index of the largest number of each row (the last axis), the lowest "
                        "of equal ones; NaN is never picked, -1 where nothing is above -infinity");
  schema.Tensor("input", kF32Only);
  registry.Add(schema, Create<Argmax>());
}

OORT_CUDA_LAYERS(token_argmax) { registry.AddDevice({"oort.Argmax"}, oort::DeviceType::kCuda); }
