// SPDX-License-Identifier: MIT
// Convolutions of images whose channels lie behind their pixels, with what passes fold into them.
#include "core/checked.h"
#include "layers/composite/float_dtypes.h"
#include "layers/convolution/depthwise/depthwise.h"
#include "layers/convolution/direct/direct_conv.h"
#include "layers/convolution/implicit_gemm/windows.h"
#include "layers/convolution/matrix_unit/matrix_unit_conv.h"
#include "layers/convolution/nhwc/conv_shape.h"
#include "layers/convolution/winograd/winograd.h"
#include "layers/expression/kernels.h"
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

/// Of images of T, which the results are, too: float, or Half for what computes in f16.
template <typename T>
class NhwcConv final : public Layer {
 public:
  explicit NhwcConv(const LayerInit& init)
      : shape_(init),
        gemm_(GemmKernelsFor(init.isa(), ReadRowsPrecision(init))),
        interleave_(InterleaveKernelsFor(init.isa())) {
    const Tensor weight = NhwcConvShape::WeightOf(init);
    if (std::is_same_v<T, Half>) {
      multiply_ = expression::FindHalfKernel(expression::Function::kMul, init.isa());
    }
    const Tensor& bias = shape_.bias().constant();
    if (ReadPrecision(init) == Precision::kBF16) shape_.AllowRough();
    if (shape_.depthwise()) {
      depthwise_.emplace(init.isa(), weight);
      if (bias.defined()) bias_ = bias.To(kDTypeOf<T>);
      return;
    }
    const bool f32 = ReadRowsPrecision(init) != Precision::kBF16;
    const GemmKernels* rounding = f32 ? nullptr : &gemm_;
    if (std::is_same_v<T, Half> && MakeHalfUnit(init, weight, bias)) return;
    if (const auto variant = ChooseWinograd(init, rounding)) {
      winograd_.emplace(init.isa(), weight, bias, *variant, rounding);
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (!f32 && MatrixUnitConv::Fits(gemm_, shape_.weight_shape(), shape_.params().groups())) {
        unit_.emplace(gemm_, weight, bias);
        if (!unit_->may_refuse()) return;
      }
    }
    // Fewer factors than such a unit multiplies at once are best left in f32.
    const bool few =
        gemm_.windows != nullptr && shape_.weight_shape().Product(1, 4) < GemmWindowKernels::kStep;
    if (f32 || unit_ || few) {
      rows_.emplace(init.isa(), weight, bias, shape_.params().groups());
      return;
    }
    zeros_ = Tensor::Zeros(DType::kF32, {shape_.weight_shape()[1]});
    PackWeight(MoveChannels(weight));
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
    Images images;
    images.in_pixel = input.dim(-1);
    images.in_first = shape_.from().offset();
    images.in = input.data<T>() + images.in_first;
    images.out_pixel = output.dim(-1);
    images.out = output.data<T>() + shape_.to().offset();
    // In place, unless somebody else reads what there was.
    const Tensor* into = shape_.into(args);
    if (into != nullptr && into->raw() != output.raw()) CopyElements(*into, output);
    if (!shape_.scaled(args)) return Convolve(context, args, g, images);
    images.scale = shape_.template scale<T>(args);
    if (TakesScale(g)) return Convolve(context, args, g, images);
    const size_t used = ScaledBytes(g);
    T* scaled = context.workspace<T>();
    Scale(context, g, images, scaled);
    images = {scaled, 0, g.in_channels, nullptr, images.out, images.out_pixel};
    const Context inner(context.threads(), {context.workspace() + used,
                                            Scratch(g, g.in_channels, context.threads(), false)});
    Convolve(inner, args, g, images);
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    if (shape_.into(args) == nullptr) return {};
    return {{Reuse::kInPlace, shape_.into_argument(), 0, 0}};
  }

  size_t Workspace(const Args& args, int threads) const override {
    const ConvGeometry g = Geometry(args);
    const int64_t in_pixel = args.tensor(shape_.input()).dim(-1);
    if (!shape_.scaled(args)) return Scratch(g, in_pixel, threads, false);
    if (TakesScale(g)) return Scratch(g, in_pixel, threads, true);
    return CheckedAdd(ScaledBytes(g), Scratch(g, g.in_channels, threads, false));
  }

  bool Packs(int argument) const override { return argument == shape_.weight(); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).multiplications();
    return cost;
  }

 private:
  /// Pixels may be parts of wider ones, `…_pixel` elements apart.
  struct Images {
    const T* in = nullptr;
    int64_t in_first = 0, in_pixel = 0;
    const T* scale = nullptr;  // of the channels of `in`, or null
    T* out = nullptr;
    int64_t out_pixel = 0;
  };

  void Convolve(const Context& context, const Args& args, const ConvGeometry& g,
                const Images& images) const {
    if (depthwise_) return RunDepthwise(context, args, g, images);
    if (winograd_) return RunWinograd(context, args, g, images);
    if (unit_ && RunUnit(context, args, g, images)) return;
    if (rows_) return RunRows(context, args, g, images);
    if constexpr (std::is_same_v<T, float>) RunGemm(context, args, g, images);
  }

  /// Whether the product can multiply by the scale on its way.
  bool TakesScale(const ConvGeometry& g) const {
    if (rows_) return rows_->TakesScale(g);
    return !packed_.empty() && gemm_.scales && g.IsEachPixel() && g.batch == 1 && g.groups == 1 &&
           g.out_plane() > 1;  // of one pixel nothing is packed
  }

  /// Whether a unit for tiles of f16 does it all; what it may refuse is left to `rows_`.
  bool MakeHalfUnit(const LayerInit& init, const Tensor& weight, const Tensor& bias) {
    if constexpr (std::is_same_v<T, Half>) {
      const TileKernelsF16* tiles = FindTileKernelsF16(init.isa());
      const int64_t groups = shape_.params().groups();
      if (tiles == nullptr || !MatrixUnitConvOf<T>::Fits(*tiles, shape_.weight_shape(), groups)) {
        return false;
      }
      unit_.emplace(*tiles, weight, bias);
      if (unit_->may_refuse()) rows_.emplace(init.isa(), weight, bias, groups);
      return true;
    }
    return false;
  }

  size_t Scratch(const ConvGeometry& g, int64_t in_pixel, int threads, bool scaled) const {
    if (depthwise_) return 0;
    if (winograd_) return winograd_->Workspace(WinogradSizeOf(g), threads);
    if (unit_) {
      return std::max(unit_->Workspace(g, in_pixel),
                      rows_ ? rows_->Workspace(g, threads, scaled) : 0);
    }
    if (rows_) return rows_->Workspace(g, threads, scaled);
    const int64_t floats = GemmBatchWorkspace(gemm_, SizeOf(g), g.groups, threads);
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
  }

  static int64_t InputPixels(const ConvGeometry& g) { return g.axes[1].in * g.axes[2].in; }
  static size_t ScaledBytes(const ConvGeometry& g) {
    const int64_t pixels = CheckedMultiply(g.batch, InputPixels(g));
    return AlignUp(
        CheckedMultiply(static_cast<size_t>(CheckedMultiply(pixels, g.in_channels)), sizeof(T)),
        64);
  }

  void Scale(const Context& context, const ConvGeometry& g, const Images& images, T* scaled) const {
    const int64_t channels = g.in_channels, pixels = InputPixels(g);
    context.ParallelFor(g.batch * pixels, 16384 / channels + 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const T* factor = images.scale + p / pixels * channels;
        const T* from = images.in + p * images.in_pixel;
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

  void RunGemm(const Context& context, const Args& args, const ConvGeometry& g,
               const Images& images) const {
    if constexpr (std::is_same_v<T, float>) {
      const GemmSize size = SizeOf(g);
      NhwcWindows windows;
      windows.pixel = images.in_pixel;
      windows.channels = g.group_in();
      windows.height = g.axes[1];
      windows.width = g.axes[2];
      windows.zeros = zeros_.data<float>();
      const bool each_pixel = g.IsEachPixel();
      GemmBatch(
          gemm_, size, g.groups, context.threads(), context.workspace<float>(),
          [&](int64_t group, int threads, float* space) {
            NhwcWindows part = windows;
            part.image = images.in + group * g.group_in();
            const NhwcSource gathered(interleave_, part);
            const MatrixSource as_it_lies(gemm_, {part.image, 1, images.in_pixel}, images.scale);
            const int64_t first = group * size.n;
            GemmProblem problem;
            problem.size = size;
            problem.a = &gathered;
            if (each_pixel) problem.a = &as_it_lies;
            problem.packed = packed_[static_cast<size_t>(group)].panels();
            problem.c = images.out + first;
            problem.ldc = images.out_pixel;
            if (const float* bias = shape_.bias().data(args)) problem.column_bias = bias + first;
            if (const float* addend = shape_.epilogue().addend(args))
              problem.addend = addend + first;
            problem.addend_stride = g.out_channels;
            problem.activation = shape_.epilogue().activation();
            Gemm(gemm_, problem, threads, space);
          });
    }
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
      const ConvGeometry g = shape_.params().Geometry(ToNchw(traced), shape_.weight_shape());
      const ConvAxis &h = g.axes[1], &w = g.axes[2];
      if (h.dilation != 1 || w.dilation != 1 || h.stride != w.stride) return std::nullopt;
      if (h.stride == 1) return WinogradConvOf<T>::Choose(WinogradSizeOf(g), init.isa(), rounding);
      const bool pays = h.stride == 2 && rounding == nullptr &&
                        WinogradConvOf<T>::PaysAtStride2(WinogradSizeOf(g), init.isa());
      return pays ? std::optional(WinogradVariant::kStride2) : std::nullopt;
    } catch (const Error&) {  // a traced shape is a hint: what is wrong with it is not said here
      return std::nullopt;
    }
  }

  void RunWinograd(const Context& context, const Args& args, const ConvGeometry& g,
                   const Images& images) const {
    WinogradCallOf<T> call;
    call.input = images.in;
    call.batch = g.batch;
    call.height = g.axes[1].in;
    call.width = g.axes[2].in;
    call.input_stride = images.in_pixel;
    call.pad_top = g.axes[1].pad;
    call.pad_left = g.axes[2].pad;
    call.output = images.out;
    call.out_height = g.axes[1].out;
    call.out_width = g.axes[2].out;
    call.output_stride = images.out_pixel;
    call.add_stride = g.out_channels;
    call.add = shape_.epilogue().template addend<T>(args);
    call.activation = shape_.epilogue().activation();
    winograd_->Run(call, context.threads(), context.workspace());
  }

  /// What all of the following read and write.
  template <typename Operands>
  Operands OperandsOf(const Args& args, const Images& images) const {
    Operands operands;
    operands.in = images.in;
    operands.in_pixel = images.in_pixel;
    operands.addend = shape_.epilogue().template addend<T>(args);
    operands.activation = shape_.epilogue().activation();
    operands.out = images.out;
    operands.out_pixel = images.out_pixel;
    return operands;
  }

  void RunDepthwise(const Context& context, const Args& args, const ConvGeometry& g,
                    const Images& images) const {
    auto operands = OperandsOf<typename DepthwiseConvOf<T>::Operands>(args, images);
    operands.bias = bias_.defined() ? bias_.template data<T>() : nullptr;
    depthwise_->Run(context, g, operands);
  }

  bool RunUnit(const Context& context, const Args& args, const ConvGeometry& g,
               const Images& images) const {
    return unit_->Run(context, g, OperandsOf<typename MatrixUnitConvOf<T>::Operands>(args, images));
  }

  void RunRows(const Context& context, const Args& args, const ConvGeometry& g,
               const Images& images) const {
    auto operands = OperandsOf<typename DirectConvOf<T>::Operands>(args, images);
    operands.in_first = images.in_first;
    operands.scale = images.scale;
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

  NhwcConvShape shape_;
  const GemmKernels& gemm_;
  const InterleaveKernels& interleave_;
  Tensor zeros_;
  std::vector<PackedMatrix> packed_;  // one a group; none where Winograd's algorithm serves
  Tensor bias_;                       // of a depthwise convolution
  std::optional<DepthwiseConvOf<T>> depthwise_;
  std::optional<DirectConvOf<T>> rows_;
  std::optional<MatrixUnitConvOf<T>> unit_;
  std::optional<WinogradConvOf<T>> winograd_;
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
  schema.Ignored("in_channels").Ignored("out_channels").Ignored("kernel_size").Ignored("bias");
  registry.Add(schema, CreateNhwcConv(schema));
}
