// SPDX-License-Identifier: MIT
#include "layers/layout/pack_shape.h"
#include "layers/layout/transpose_planes.h"

namespace oort {
namespace {

class CudaPackLayer final : public Layer {
 public:
  explicit CudaPackLayer(const LayerInit& init) : shape_(init) {}

  std::vector<Value> Infer(const Args& args) const override { return {shape_.Output(args)}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const int rank = input.rank();
    cuda::TransposeCall call;
    call.in = input.raw();
    call.out = output.raw();
    call.batch = input.shape().Product(0, rank - 3);
    call.rows = input.dim(rank - 3);
    call.columns = input.shape().Product(rank - 2, rank);
    call.padded_rows = output.dim(rank - 1);
    cuda::TransposePlanes(*context.stream(), call, input.dtype(), output.dtype());
  }

 private:
  PackShape shape_;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(pack) {
  using namespace oort;
  registry.AddDevice({"nhwc.pack"}, DeviceType::kCuda, Create<CudaPackLayer>());
}
