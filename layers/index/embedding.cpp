// SPDX-License-Identifier: MIT
#include "core/dispatch.h"
#include "cuda/memory.h"
#include "layers/index/device_index.h"
#include "layers/index/index_plan.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

bool IsHalf(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

/// Row input[i] of the table for each index.
class EmbeddingLayer final : public Layer {
 public:
  explicit EmbeddingLayer(const LayerInit& init)
      : input_(init.Arg("input")),
        weight_(init.Arg(init.Arg("@weight") >= 0 ? "@weight" : "weight")),
        // A model of half weights is computed in f32, as the traced dtypes say.
        widen_(init.Arg("@weight") >= 0 || init.outputs()[0]->dtype == DType::kF32) {
    if (init.device().type == DeviceType::kCpu) return;
    const Value& weight = init.Constant(init.Arg("@weight") >= 0 ? "@weight" : "weight");
    if (!weight.IsTensor()) throw Error(ErrorCode::kUnsupported, "computes its table");
    const Tensor& table = weight.AsTensor();
    const DType dtype = widen_ && IsHalf(table.dtype()) ? DType::kF32 : table.dtype();
    uploaded_ = cuda::ToDevice(table.To(dtype), init.device());
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(ResultType(args), ResultShape(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (context.stream() != nullptr) {
      return SelectOnDevice(*context.stream(), uploaded_, args.tensor(input_), 0,
                            outputs[0].AsTensor());
    }
    const Tensor& weight = args.tensor(weight_);
    Tensor& output = OutputTensor(outputs[0], ResultType(args), ResultShape(args));
    const IndexPlan plan = PlanSelect(weight.shape(), 0, ReadIndices(args.tensor(input_)));
    if (output.dtype() == weight.dtype()) {
      CopyIndexed(context, ItemSize(weight.dtype()), weight.raw(), plan, output.raw());
    } else if (weight.dtype() == DType::kF16) {
      WidenRows<Half>(context, weight, plan.table, output);
    } else {
      WidenRows<BFloat16>(context, weight, plan.table, output);
    }
  }

  bool Packs(int argument) const override { return argument == weight_ && uploaded_.defined(); }

 private:
  template <typename From>
  static void WidenRows(const Context& context, const Tensor& weight, std::span<const int64_t> rows,
                        Tensor& output) {
    const From* source = weight.data<From>();
    float* target = output.data<float>();
    const int64_t width = weight.shape()[1];
    context.ParallelFor(static_cast<int64_t>(rows.size()), 16 * 1024 / (width + 1) + 1,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const From* row = source + rows[static_cast<size_t>(i)];
                            for (int64_t j = 0; j < width; ++j) {
                              target[i * width + j] = static_cast<float>(row[j]);
                            }
                          }
                        });
  }

  DType ResultType(const Args& args) const {
    const DType dtype = args.tensor(weight_).dtype();
    return widen_ && IsHalf(dtype) ? DType::kF32 : dtype;
  }

  Shape ResultShape(const Args& args) const {
    const Shape& weight = args.shape(weight_);
    if (weight.rank() != 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a table of rows, got weight " + weight.ToString());
    }
    Shape shape = args.shape(input_);
    shape.Append(weight[1]);
    return shape;
  }

  int input_, weight_;
  bool widen_;
  Tensor uploaded_;  // the table on the GPU, where the layer is there
};

}  // namespace
}  // namespace oort

OORT_LAYERS(embedding) {
  using namespace oort;
  registry.Add(OperatorSchema({"nn.Embedding"}, "The row of the table that each index names")
                   .Tensor("input", kIndexTypes)
                   .Ignored("num_embeddings")
                   .Ignored("embedding_dim")
                   .Ignored("padding_idx")
                   .Ignored("scale_grad_by_freq")
                   .Ignored("sparse")
                   .Attribute("weight", kAllDTypes),
               Create<EmbeddingLayer>());
  registry.Add(OperatorSchema({"F.embedding"}, "The row of the table that each index names")
                   .Tensor("input", kIndexTypes)
                   .Tensor("weight", kAllDTypes)
                   .Ignored("padding_idx")
                   .Ignored("scale_grad_by_freq")
                   .Ignored("sparse"),
               Create<EmbeddingLayer>());
}

OORT_CUDA_LAYERS(embedding) { registry.AddDevice({"nn.Embedding"}, oort::DeviceType::kCuda); }
