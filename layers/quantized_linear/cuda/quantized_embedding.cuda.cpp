// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/dequantize.h"
#include "layers/quantized_linear/cuda/device_matrix.h"
#include "layers/quantized_linear/stored_weight.h"
#include "layers/quantized_linear/table_part.h"

namespace oort {
namespace {

/// Rows of a table, or of a rank's part of one, in the GPU's memory. An index that is not in the
/// table gives NaN: the device cannot throw.
class CudaQuantizedEmbedding final : public Layer {
 public:
  explicit CudaQuantizedEmbedding(const LayerInit& init)
      : input_(init.Arg("input")),
        part_(init, init.Int("num_embeddings")),
        factor_(static_cast<float>(init.Float("factor"))),
        table_(cuda::DeviceMatrix::Shared(
            ReadStored(init, 0, part_.rows, init.Int("embedding_dim")), init.device())),
        packed_(StoredArguments(init, 1)) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (args.tensor(input_).dtype() != DType::kI32) {
      throw Error(ErrorCode::kUnsupported,
                  "expected indices of i32 on the GPU, got " + args.tensor(input_).ToString());
    }
    Shape shape = args.shape(input_);
    shape.Append(table_->columns());
    shape.elements();
    return {Tensor::Meta(DType::kF32, shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& indices = args.tensor(input_);
    cuda::GatherRows(*context.stream(), table_->weights(), part_, indices.data<int32_t>(),
                     indices.elements(), table_->columns(), factor_,
                     outputs[0].AsTensor().data<float>());
  }

  bool Packs(int argument) const override { return IsAmong(packed_, argument); }

 private:
  int input_;
  TablePart part_;
  float factor_;
  std::shared_ptr<const cuda::DeviceMatrix> table_;
  std::vector<int> packed_;
};

}  // namespace
}  // namespace oort

OORT_CUDA_LAYERS(quantized_embedding) {
  using namespace oort;
  registry.AddDevice({"oort.QuantizedEmbedding"}, DeviceType::kCuda,
                     Create<CudaQuantizedEmbedding>());
}
