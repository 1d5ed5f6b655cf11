// SPDX-License-Identifier: MIT
// Convolutions of images whose channels lie behind their pixels, with what passes fold into them.
#include "core/checked.h"
#include "layers/channels_last/conv_shape.h"
#include "layers/channels_last/depthwise.h"
#include "layers/channels_last/row_conv.h"
#include "layers/channels_last/windows.h"
#include "layers/channels_last/winograd.h"
#include "layers/composite/float_dtypes.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

/// (out, in, height, width) to (out, height, width, in).
Tensor MoveChannels(const Tensor& weight) {
  const Shape& shape = weight.shape();
  const int64_t taps = shape[2] * shape[3], channels = shape[1];
  Tensor moved(DType::kF32, {shape[0], shape[2], shape[3], channels});
  const float* from = weight.data<float>();
  float* to = moved.data<float>();
  for (int64_t out = 0; out < shape[0]; ++out, from += channels * taps) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < channels; ++c) *to++ = from[c * taps + tap];
    }
  }
  return moved;
}

class ChannelsLastConv final : public Layer {
 public:
  explicit ChannelsLastConv(const LayerInit& init)
      : shape_(init),
        gemm_(GemmKernelsFor(init.isa(), ReadRowsPrecision(init))),
        interleave_(InterleaveKernelsFor(init.isa())) {
    const Tensor weight = ChannelsLastConvShape::WeightOf(init);
    const Tensor& bias = shape_.bias().constant();
    if (ReadPrecision(init) == Precision::kBF16) shape_.AllowRough();
    if (shape_.depthwise()) {
      depthwise_.emplace(init.isa(), weight);
      return;
    }
    const bool f32 = ReadRowsPrecision(init) == Precision::kF32;
    const GemmKernels* rounding = f32 ? nullptr : &gemm_;
    if (const auto variant = ChooseWinograd(init, rounding)) {
      winograd_.emplace(init.isa(), weight, bias, *variant, rounding);
      return;
    }
    if (f32) {
      rows_.emplace(init.isa(), weight, bias, shape_.params().groups());
      return;
    }
    zeros_ = Tensor::Zeros(DType::kF32, {shape_.weight_shape()[1]});
    PackWeight(MoveChannels(weight));
  }

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, shape_.Output(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const ConvGeometry g = Geometry(args);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    if (depthwise_) return RunDepthwise(context, args, g, output);
    if (winograd_) return RunWinograd(context, args, g, output);
    if (rows_) return RunRows(context, args, g, output);
    RunGemm(context, args, g, output);
  }

  size_t Workspace(const Args& args, int threads) const override {
    if (depthwise_) return 0;
    const ConvGeometry g = Geometry(args);
    if (winograd_) return winograd_->Workspace(WinogradSizeOf(g), threads);
    if (rows_) return rows_->Workspace(g, threads);
    const int64_t floats = GemmBatchWorkspace(gemm_, SizeOf(g), g.groups, threads);
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
  }

  bool Packs(int argument) const override { return argument == shape_.weight(); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).multiplications();
    return cost;
  }

 private:
  void RunGemm(const Context& context, const Args& args, const ConvGeometry& g,
               Tensor& output) const {
    const GemmSize size = SizeOf(g);
    ChannelsLastWindows windows;
    windows.pixel = g.in_channels;
    windows.channels = g.group_in();
    windows.height = g.axes[1];
    windows.width = g.axes[2];
    windows.zeros = zeros_.data<float>();
    // Then the image is the matrix.
    const bool each_pixel = g.taps() == 1 && g.axes[1].out == g.axes[1].in &&
                            g.axes[2].out == g.axes[2].in && g.axes[1].stride == 1 &&
                            g.axes[2].stride == 1 && g.axes[1].pad == 0 && g.axes[2].pad == 0;
    GemmBatch(gemm_, size, g.groups, context.threads(), context.workspace<float>(),
              [&](int64_t group, int threads, float* space) {
                ChannelsLastWindows part = windows;
                part.image = args.tensor(shape_.input()).data<float>() + group * g.group_in();
                const ChannelsLastSource gathered(interleave_, part);
                const MatrixSource as_it_lies(gemm_, {part.image, 1, g.in_channels});
                const int64_t first = group * size.n;
                GemmProblem problem;
                problem.size = size;
                problem.a = &gathered;
                if (each_pixel) problem.a = &as_it_lies;
                problem.packed = packed_[static_cast<size_t>(group)].panels();
                problem.c = output.data<float>() + first;
                problem.ldc = g.out_channels;
                if (const float* bias = shape_.bias().data(args))
                  problem.column_bias = bias + first;
                if (const float* addend = shape_.epilogue().addend(args))
                  problem.addend = addend + first;
                problem.addend_stride = g.out_channels;
                problem.activation = shape_.epilogue().activation();
                Gemm(gemm_, problem, threads, space);
              });
  }

  ConvGeometry Geometry(const Args& args) const { return shape_.Geometry(args); }

  static WinogradSize WinogradSizeOf(const ConvGeometry& g) {
    return {g.batch, g.axes[1].out, g.axes[2].out, g.in_channels, g.out_channels};
  }

  /// By the traced size: the weights are kept in one form only, which serves other sizes as well.
  std::optional<WinogradVariant> ChooseWinograd(const LayerInit& init,
                                                const GemmKernels* rounding) const {
    // Rounded coefficients cost half as much again in exactness as rounded pixels: that is little
    // where the sum goes to a residual, which is exact.
    if (rounding != nullptr && init.inputs().size() < 2) return std::nullopt;
    const bool fits = shape_.params().groups() == 1 && shape_.weight_shape()[2] == 3 &&
                      shape_.weight_shape()[3] == 3;
    if (!fits || init.inputs().empty() || !init.inputs()[0]->has_shape) return std::nullopt;
    const Shape& traced = init.inputs()[0]->shape;
    for (int i = 0; i < traced.rank(); ++i) {
      if (traced[i] <= 0) return std::nullopt;
    }
    try {
      const ConvGeometry g =
          shape_.params().Geometry(ToChannelsFirst(traced), shape_.weight_shape());
      for (const ConvAxis& axis : g.axes) {
        if (axis.stride != 1 || axis.dilation != 1) return std::nullopt;
      }
      return WinogradConv::Choose(WinogradSizeOf(g), init.isa(), rounding);
    } catch (const Error&) {  // a traced shape is a hint: what is wrong with it is not said here
      return std::nullopt;
    }
  }

  void RunWinograd(const Context& context, const Args& args, const ConvGeometry& g,
                   Tensor& output) const {
    WinogradCall call;
    call.input = args.tensor(shape_.input()).data<float>();
    call.batch = g.batch;
    call.height = g.axes[1].in;
    call.width = g.axes[2].in;
    call.input_stride = g.in_channels;
    call.pad_top = g.axes[1].pad;
    call.pad_left = g.axes[2].pad;
    call.output = output.data<float>();
    call.out_height = g.axes[1].out;
    call.out_width = g.axes[2].out;
    call.output_stride = call.add_stride = g.out_channels;
    call.add = shape_.epilogue().addend(args);
    call.activation = shape_.epilogue().activation();
    winograd_->Run(call, context.threads(), context.workspace<float>());
  }

  void RunDepthwise(const Context& context, const Args& args, const ConvGeometry& g,
                    Tensor& output) const {
    DepthwiseConv::Operands operands;
    operands.in = args.tensor(shape_.input()).data<float>();
    operands.bias = shape_.bias().data(args);
    operands.addend = shape_.epilogue().addend(args);
    operands.activation = shape_.epilogue().activation();
    operands.out = output.data<float>();
    operands.in_pixel = operands.addend_pixel = operands.out_pixel = g.out_channels;
    depthwise_->Run(context, g, operands);
  }

  void RunRows(const Context& context, const Args& args, const ConvGeometry& g,
               Tensor& output) const {
    RowConv::Operands operands;
    operands.in = args.tensor(shape_.input()).data<float>();
    operands.addend = shape_.epilogue().addend(args);
    operands.activation = shape_.epilogue().activation();
    operands.out = output.data<float>();
    operands.in_pixel = g.in_channels;
    operands.out_pixel = g.out_channels;
    rows_->Run(context, g, operands);
  }

  void PackWeight(const Tensor& weight) {
    const int64_t groups = shape_.params().groups(), columns = shape_.weight_shape()[0] / groups;
    const int64_t k = shape_.weight_shape().Product(1, 4);
    for (int64_t g = 0; g < groups; ++g) {
      const MatrixSource source(gemm_, {weight.data<float>() + g * columns * k, 1, k});
      packed_.emplace_back(gemm_, GemmSide::kB, columns, k, source);
    }
  }

  GemmSize SizeOf(const ConvGeometry& g) const {
    return {CheckedMultiply(g.batch, g.out_plane()), g.group_out(),
            CheckedMultiply(g.group_in(), g.taps()), false, true};
  }

  ChannelsLastConvShape shape_;
  const GemmKernels& gemm_;
  const InterleaveKernels& interleave_;
  Tensor zeros_;
  std::vector<PackedMatrix> packed_;  // one a group; none where Winograd's algorithm serves
  std::optional<DepthwiseConv> depthwise_;
  std::optional<RowConv> rows_;
  std::optional<WinogradConv> winograd_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(conv2d) {
  using namespace oort;
  OperatorSchema schema({"channels_last.Conv2d"},
                        "nn.Conv2d of (…, H, W, C), plus an addend, through an activation. Made by "
                        "the channels-last pass");
  constexpr DTypeSet kDTypes = kF32Only | DType::kF16 | DType::kBF16;
  schema.Tensor("input", kDTypes)
      .OptionalTensor("addend", kDTypes)
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
      .AtLeast(1);
  AddEpilogueParams(schema);
  AddPrecisionParam(schema);
  schema.Ignored("in_channels").Ignored("out_channels").Ignored("kernel_size").Ignored("bias");
  registry.Add(schema, WithHalves(schema, Create<ChannelsLastConv>()));
}
