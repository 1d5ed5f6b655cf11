// SPDX-License-Identifier: MIT
#include <cmath>

#include "core/checked.h"
#include "layers/attention/attention_core.h"
#include "layers/attention/device_attention.h"
#include "layers/composite/float_dtypes.h"

namespace oort {
namespace {

/// Attention to oneself: queries, keys and values of all heads stand side by side in one operand,
/// as one product makes them. T is float, or on a GPU one of 16 bits, too.
template <typename T>
class JointAttention final : public Layer {
 public:
  explicit JointAttention(const LayerInit& init)
      : input_(init.Arg("input")),
        heads_(init.Int("heads")),
        on_device_(init.device().type != DeviceType::kCpu),
        kernels_(init) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& input = args.tensor(input_);
    const AttentionProblem<T> problem = ProblemOf(input);
    if (input.dtype() != kDTypeOf<T>) {
      ThrowAttention("expected " + std::string(Name(kDTypeOf<T>)) + ", got " + input.ToString());
    }
    if (on_device_ && problem.dim > kDeviceAttentionWidth) {
      throw Error(ErrorCode::kUnsupported, "heads are too wide for the GPU");
    }
    Shape output = input.shape();
    output[output.rank() - 1] /= 3;
    return {Tensor::Meta(kDTypeOf<T>, output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    AttentionProblem<T> problem = ProblemOf(input);
    const int64_t width = heads_ * problem.dim, row = 3 * width;
    AttentionOperand<T> operand{input.data<T>(), row, {}};
    for (int64_t matrix = 0; matrix < problem.count; ++matrix) {
      const int64_t first = matrix / heads_ * problem.queries, head = matrix % heads_;
      operand.offsets.push_back(first * row + head * problem.dim);
      problem.output_offsets.push_back(first * width + head * problem.dim);
    }
    problem.q = problem.k = problem.v = operand;
    problem.k.data += width;
    problem.v.data += 2 * width;
    problem.output = outputs[0].AsTensor().data<T>();
    problem.output_row = width;
    if (context.stream() != nullptr) return AttentionOnDevice(*context.stream(), problem);
    if constexpr (std::is_same_v<T, float>) {
      RunAttention(kernels_, problem, context.threads(), context.workspace<T>());
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    if constexpr (std::is_same_v<T, float>) {
      if (on_device_) return 0;
      const AttentionProblem<T> problem = ProblemOf(args.tensor(input_));
      const int64_t floats = AttentionWorkspace(kernels_, problem, threads);
      return CheckedMultiply(static_cast<size_t>(floats), sizeof(T));
    }
    return 0;
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const AttentionProblem<T> problem = ProblemOf(args.tensor(input_));
    const double scores = static_cast<double>(problem.queries) * static_cast<double>(problem.keys);
    cost.flops = 4 * static_cast<double>(problem.count) * static_cast<double>(problem.dim) * scores;
    return cost;
  }

 private:
  AttentionProblem<T> ProblemOf(const Tensor& input) const {
    const Shape& shape = input.shape();
    const int rank = shape.rank();
    if (rank < 2 || shape[rank - 1] == 0 || shape[rank - 1] % (3 * heads_) != 0) {
      ThrowAttention("expected rows of queries, keys and values of " + std::to_string(heads_) +
                     " heads, got " + input.ToString());
    }
    AttentionProblem<T> problem;
    problem.count = CheckedMultiply(shape.Product(0, rank - 2), heads_);
    problem.queries = problem.keys = shape[rank - 2];
    problem.dim = problem.value_dim = shape[rank - 1] / (3 * heads_);
    problem.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(problem.dim)));
    return problem;
  }

  int input_;
  int64_t heads_;
  bool on_device_;
  AttentionKernels kernels_;
};

/// For the GPU, which has all its dtypes.
std::unique_ptr<Layer> CreateJointOnDevice(const LayerInit& init) {
  const Operand& input = *init.inputs()[0];
  const int64_t columns =
      input.has_shape && input.shape.rank() > 0 ? input.shape[input.shape.rank() - 1] : 0;
  if (columns / (3 * init.Int("heads")) > kDeviceAttentionWidth) {
    throw Error(ErrorCode::kUnsupported, "heads are too wide for the GPU");
  }
  switch (input.dtype) {
    case DType::kF16: return std::make_unique<JointAttention<Half>>(init);
    case DType::kBF16: return std::make_unique<JointAttention<BFloat16>>(init);
    default: return std::make_unique<JointAttention<float>>(init);
  }
}

}  // namespace
}  // namespace oort

OORT_LAYERS(joint_attention) {
  using namespace oort;
  OperatorSchema schema({"oort.JointAttention"},
                        "F.scaled_dot_product_attention of (…,length,3 x heads x width), which has "
                        "the queries of all heads, then their keys, then their values: gives "
                        "(…,length,heads x width). Made by passes for the GPU, no file needs it");
  schema.Tensor("input", DTypeSet(DType::kF32) | DType::kF16 | DType::kBF16);
  schema.Int("heads").AtLeast(1).KeepsDType();
  AddPrecisionParam(schema);
  registry.Add(schema, WithHalves(schema, Create<JointAttention<float>>()));
}

OORT_CUDA_LAYERS(joint_attention) {
  using namespace oort;
  registry.AddDevice({"oort.JointAttention"}, DeviceType::kCuda, CreateJointOnDevice);
}
