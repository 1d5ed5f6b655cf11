// SPDX-License-Identifier: MIT
// Convolutions of images whose channels lie behind their pixels, with what passes fold into them.
#include "core/checked.h"
#include "layers/composite/float_dtypes.h"
#include "layers/convolution/nhwc/conv_algorithms.h"
#include "layers/convolution/nhwc/conv_shape.h"
#include "layers/expression/kernels.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

/// What is known of the convolution now.
NhwcConvProblem ProblemOf(const LayerInit& init, const NhwcConvShape& shape) {
  NhwcConvProblem problem;
  problem.isa = init.isa();
  problem.precision = ReadRowsPrecision(init);
  problem.weight = shape.weight_shape();
  const ConvParams& params = shape.params();
  problem.groups = params.groups();
  problem.stride = {params.stride(0), params.stride(1)};
  problem.dilation = {params.dilation(0), params.dilation(1)};
  problem.more_inputs = init.inputs().size() > 1;
  if (init.inputs().empty() || !init.inputs()[0]->has_shape) return problem;
  const Shape& traced = init.inputs()[0]->shape;
  for (int i = 0; i < traced.rank(); ++i) {
    if (traced[i] <= 0) return problem;
  }
  try {
    problem.traced = params.Geometry(ToNchw(traced), problem.weight);
  } catch (const Error&) {  // a traced shape is a hint: what is wrong with it is not said here
  }
  return problem;
}

/// Of images of T, which the results are, too: float, or Half for what computes in f16.
template <typename T>
class NhwcConv final : public Layer {
 public:
  explicit NhwcConv(const LayerInit& init) : shape_(init) {
    if (std::is_same_v<T, Half>) {
      multiply_ = expression::FindHalfKernel(expression::Function::kMul, init.isa());
    }
    if (ReadPrecision(init) == Precision::kBF16) shape_.AllowRough();
    const NhwcConvProblem problem = ProblemOf(init, shape_);
    const auto algorithms = NhwcConvAlgorithms<T>();
    const auto& algorithm = *algorithms[ChooseConv(algorithms, problem, ReadConvAlgorithm(init))];
    name_ = algorithm.name();
    conv_ = algorithm.Prepare(problem, NhwcConvShape::WeightOf(init), shape_.bias().constant());
  }

  std::vector<Value> Infer(const Args& args) const override {
    if (std::is_same_v<T, Half>) CheckHalves(args);
    return {Tensor::Meta(kDTypeOf<T>, shape_.Output(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const ConvGeometry g = Geometry(args);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const Tensor& input = args.tensor(shape_.input());
    ConvOperandsOf<T> operands;
    operands.in_pixel = input.dim(-1);
    operands.in_first = shape_.from().offset();
    operands.in = input.data<T>() + operands.in_first;
    operands.out_pixel = output.dim(-1);
    operands.out = output.data<T>() + shape_.to().offset();
    operands.addend = shape_.epilogue().template addend<T>(args);
    operands.activation = shape_.epilogue().activation();
    // In place, unless somebody else reads what there was.
    const Tensor* into = shape_.into(args);
    if (into != nullptr && into->raw() != output.raw()) CopyElements(*into, output);
    if (!shape_.scaled(args)) return conv_->Run(context, g, operands);
    operands.scale = shape_.template scale<T>(args);
    if (conv_->TakesScale(g)) return conv_->Run(context, g, operands);
    const size_t used = ScaledBytes(g);
    T* scaled = context.workspace<T>();
    Scale(context, g, operands, scaled);
    operands.in = scaled;
    operands.in_first = 0;
    operands.in_pixel = g.in_channels;
    operands.scale = nullptr;
    const size_t rest = conv_->Scratch(g, g.in_channels, context.threads(), false);
    conv_->Run(Context(context.threads(), {context.workspace() + used, rest}), g, operands);
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    if (shape_.into(args) == nullptr) return {};
    return {{Reuse::kInPlace, shape_.into_argument(), 0, 0}};
  }

  size_t Workspace(const Args& args, int threads) const override {
    const ConvGeometry g = Geometry(args);
    const int64_t in_pixel = args.tensor(shape_.input()).dim(-1);
    if (!shape_.scaled(args)) return conv_->Scratch(g, in_pixel, threads, false);
    if (conv_->TakesScale(g)) return conv_->Scratch(g, in_pixel, threads, true);
    return CheckedAdd(ScaledBytes(g), conv_->Scratch(g, g.in_channels, threads, false));
  }

  bool Packs(int argument) const override { return argument == shape_.weight(); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).multiplications();
    cost.algorithm = name_;
    return cost;
  }

 private:
  static int64_t InputPixels(const ConvGeometry& g) { return g.axes[1].in * g.axes[2].in; }
  static size_t ScaledBytes(const ConvGeometry& g) {
    const int64_t pixels = CheckedMultiply(g.batch, InputPixels(g));
    return AlignUp(
        CheckedMultiply(static_cast<size_t>(CheckedMultiply(pixels, g.in_channels)), sizeof(T)),
        64);
  }

  void Scale(const Context& context, const ConvGeometry& g, const ConvOperandsOf<T>& operands,
             T* scaled) const {
    const int64_t channels = g.in_channels, pixels = InputPixels(g);
    context.ParallelFor(g.batch * pixels, 16384 / channels + 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const T* factor = operands.scale + p / pixels * channels;
        const T* from = operands.in + p * operands.in_pixel;
        T* to = scaled + p * channels;
        if constexpr (std::is_same_v<T, float>) {
          for (int64_t c = 0; c < channels; ++c) to[c] = from[c] * factor[c];
        } else {
          const void* const factors[] = {from, factor};
          multiply_(factors, to, channels);
        }
      }
    });
  }

  static void CheckHalves(const Args& args) {
    for (const Value* value : args.inputs()) {
      const DType dtype = value->IsTensor() ? value->AsTensor().dtype() : DType::kNull;
      if (dtype == DType::kF16) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "expected images of f16, got dtype " + std::string(Name(dtype)));
    }
  }

  ConvGeometry Geometry(const Args& args) const { return shape_.Geometry(args); }

  NhwcConvShape shape_;
  std::string_view name_;  // of the algorithm
  std::unique_ptr<PreparedNhwcConv<T>> conv_;
  expression::Kernel multiply_ = nullptr;  // elements of f16
};

/// In f16 where the narrow-floats pass has prepared for it and the processor can, else in f32.
LayerCreator CreateNhwcConv(const OperatorSchema& schema) {
  return [wide = WithHalves(schema, Create<NhwcConv<float>>()), half = Create<NhwcConv<Half>>()](
             const LayerInit& init) { return (ComputesInF16(init) ? half : wide)(init); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(conv2d) {
  using namespace oort;
  OperatorSchema schema({"nhwc.Conv2d"},
                        "nn.Conv2d of (…, H, W, C) times a scale of each channel, plus an addend, "
                        "through an activation; reads the channels from `from` on of an image that "
                        "has more, and gives those from `to` on of one. Made by passes");
  constexpr DTypeSet kDTypes = kF32Only | DType::kF16 | DType::kBF16;
  schema.Tensor("input", kDTypes)
      .OptionalTensor("addend", kDTypes)
      .OptionalTensor("into", kDTypes)
      .OptionalTensor("scale", kDTypes)
      .Attribute("weight", kFloats)
      .OptionalAttribute("bias", kFloats)
      .Ints("stride", 2, Value(1))
      .AtLeast(1)
      .Ints("padding", -1, Value(0))
      .AtLeast(0)
      .OneOf({"same", "valid"})
      .Ints("dilation", 2, Value(1))
      .AtLeast(1)
      .Int("groups", 1)
      .AtLeast(1)
      .Int("from", -1)
      .Int("of", 0)
      .Int("to", -1)
      .Int("width", 0)
      .Int("rank", 0);
  AddEpilogueParams(schema);
  AddPrecisionParam(schema);
  AddConvAlgorithmParam(schema);
  schema.Ignored("in_channels").Ignored("out_channels").Ignored("kernel_size").Ignored("bias");
  schema.Product().F16OnCpu();
  registry.Add(schema, CreateNhwcConv(schema));
}
