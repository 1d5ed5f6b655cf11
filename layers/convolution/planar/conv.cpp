// SPDX-License-Identifier: MIT
#include <limits>
#include <optional>

#include "core/checked.h"
#include "core/parallel.h"
#include "cpu/gemm.h"
#include "layers/composite/float_dtypes.h"
#include "layers/convolution/conv_padding.h"
#include "layers/convolution/planar/conv_kernels.h"
#include "layers/convolution/planar/conv_plain.h"
#include "layers/precision_param.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Im2colSource final : public PanelSource {
 public:
  Im2colSource(const Im2colKernels& kernels, const Im2col& image)
      : kernels_(kernels), image_(image) {}
  void Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
            float* panel) const override {
    kernels_.pack(image_, k0, k1, i0, i1, width, panel);
  }

 private:
  const Im2colKernels& kernels_;
  Im2col image_;
};

/// Each input channel has filters of its own.
bool IsDepthwise(const ConvGeometry& g) {
  return g.groups > 1 && g.groups == g.in_channels && g.axes[0].in == 1 && g.axes[0].kernel == 1 &&
         g.axes[0].pad == 0 && g.axes[0].pad_after == 0;
}

/// The matrix to multiply is the image itself.
bool IsPointwise(const ConvGeometry& g) {
  for (const ConvAxis& axis : g.axes) {
    if (axis.kernel != 1 || axis.stride != 1 || axis.pad != 0 || axis.pad_after != 0) return false;
  }
  return true;
}

size_t FloatBytes(int64_t floats) {
  return AlignUp(CheckedMultiply(static_cast<size_t>(floats), sizeof(float)), 64);
}

class Conv final : public Layer {
 public:
  Conv(const LayerInit& init, int spatial_rank)
      : params_(init, spatial_rank, false),
        input_(init.Arg("input")),
        weight_(init, "weight"),
        bias_(init, "bias"),
        mode_(ConvPadMode(init)),
        gemm_(GemmKernelsFor(init)),
        im2col_(Im2colKernelsFor(init.isa())),
        depthwise_(DepthwiseKernelsFor(init.isa())) {
    CheckBiasFlag(init);
    if (!weight_.constant().defined()) return;
    params_.CheckWeight(init, weight_.constant().shape());
    PackWeight(weight_.constant());
    const bool depthwise = params_.groups() > 1 && weight_.constant().shape()[1] == 1;
    if (!packed_.empty() && !depthwise) weight_.Forget();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const ConvGeometry g = Geometry(args);
    bias_.CheckShape(args, {g.out_channels});
    if (mode_ != PadMode::kConstant)
      ConvPadding(g, mode_, args.shape(input_).rank()).Apply(args.shape(input_));
    return {Tensor::Meta(DType::kF32, g.output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    ConvGeometry g = Geometry(args);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const Tensor& input = args.tensor(input_);
    const float* image = input.data<float>();
    std::byte* workspace = context.workspace();
    if (mode_ != PadMode::kConstant) {
      const Padding padding = ConvPadding(g, mode_, args.shape(input_).rank());
      Tensor padded =
          Tensor::Borrow(reinterpret_cast<float*>(workspace), padding.Apply(input.shape()));
      PadCopy(context, input, padding, Value(0), padded);
      image = padded.data<float>();
      workspace += FloatBytes(padded.elements());
      g = Unpadded(g);
    }
    float* scratch = reinterpret_cast<float*>(workspace);
    if (IsDepthwise(g)) {
      RunDepthwise(context, args, g, image, scratch, output.data<float>());
    } else {
      RunGemm(context, args, g, image, scratch, output.data<float>());
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    ConvGeometry g = Geometry(args);
    size_t bytes = 0;
    if (mode_ != PadMode::kConstant) {
      bytes = FloatBytes(
          ConvPadding(g, mode_, args.shape(input_).rank()).Apply(args.shape(input_)).elements());
      g = Unpadded(g);
    }
    if (IsDepthwise(g)) {
      const int64_t planes = DepthwisePieces(g, threads);
      return CheckedAdd(bytes, FloatBytes(CheckedMultiply(PlaneFloats(g), planes)));
    }
    const int64_t floats =
        GemmBatchWorkspace(gemm_, SizeOf(g), CheckedMultiply(g.batch, g.groups), threads);
    return CheckedAdd(bytes, FloatBytes(floats));
  }

  bool Packs(int argument) const override { return weight_.Packed(argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).multiplications();
    return cost;
  }

 private:
  ConvGeometry Geometry(const Args& args) const {
    return params_.Geometry(args.shape(input_), weight_.shape(args));
  }

  void PackWeight(const Tensor& weight) {
    const int64_t groups = params_.groups(), rows = weight.shape()[0] / groups;
    const int64_t k = weight.shape().Product(1, weight.rank());
    if (groups > 1 && weight.shape()[1] == 1 && weight.rank() < 5) return;  // depthwise: as it is
    for (int64_t g = 0; g < groups; ++g) {
      const MatrixSource source(gemm_, {weight.data<float>() + g * rows * k, 1, k});
      packed_.emplace_back(gemm_, GemmSide::kA, rows, k, source);
    }
  }

  GemmSize SizeOf(const ConvGeometry& g) const {
    return {g.group_out(), g.out_plane(), CheckedMultiply(g.group_in(), g.taps()), !packed_.empty(),
            false};
  }

  void RunGemm(const Context& context, const Args& args, const ConvGeometry& g, const float* image,
               float* scratch, float* output) const {
    const GemmSize size = SizeOf(g);
    const float* weight = weight_.data(args);
    const float* bias = bias_.data(args);
    const float* image_end = image + g.batch * g.in_channels * g.in_plane();
    const bool pointwise = IsPointwise(g);
    GemmBatch(gemm_, size, g.batch * g.groups, context.threads(), scratch,
              [&](int64_t i, int threads, float* space) {
                const int64_t group = i % g.groups;
                const float* channels = image + i * g.group_in() * g.in_plane();
                const int64_t first = size.a_packed ? 0 : group * size.m * size.k;
                const MatrixSource rows(gemm_, {weight + first, 1, size.k});
                const MatrixSource pixels(gemm_, {channels, g.in_plane(), 1});
                const Im2colSource windows(im2col_, {channels, image_end, g.axes});
                GemmProblem problem;
                problem.size = size;
                problem.a = &rows;
                if (size.a_packed) problem.packed = packed_[static_cast<size_t>(group)].panels();
                problem.b = pointwise ? static_cast<const PanelSource*>(&pixels) : &windows;
                problem.c = output + i * size.m * size.n;
                problem.ldc = size.n;
                if (bias != nullptr) problem.row_bias = bias + group * size.m;
                Gemm(gemm_, problem, threads, space);
              });
  }

  /// Floats of one padded plane, with what the kernel may read behind it.
  int64_t PlaneFloats(const ConvGeometry& g) const {
    const int64_t floats = CheckedMultiply(PlaneRows(g.axes[1]), PlaneRows(g.axes[2]));
    return CheckedAdd<int64_t>(floats, depthwise_.slack + 16) / 16 * 16;
  }
  /// Padded inputs that windows reach.
  static int64_t PlaneRows(const ConvAxis& axis) {
    return CheckedAdd(CheckedMultiply(axis.out - 1, axis.stride), axis.reach());
  }

  static double DepthwiseGrains(const ConvGeometry& g) {
    constexpr double kGrainWork = 32 * 1024;
    return g.multiplications() / kGrainWork;
  }

  static int DepthwisePieces(const ConvGeometry& g, int threads) {
    const int64_t useful = ChoosePieces(threads, DepthwiseGrains(g), true);
    return static_cast<int>(std::clamp<int64_t>(g.batch * g.out_channels, 1, useful));
  }

  void RunDepthwise(const Context& context, const Args& args, const ConvGeometry& g,
                    const float* image, float* scratch, float* output) const {
    const int pieces = DepthwisePieces(g, context.threads());
    const int64_t planes = g.batch * g.out_channels;
    const float* weight = weight_.data(args);
    const float* bias = bias_.data(args);
    ParallelPieces(context.threads(), pieces, DepthwiseGrains(g), [&](int piece) {
      float* padded = scratch + piece * PlaneFloats(g);
      std::fill_n(padded, PlaneFloats(g), 0.0f);
      int64_t loaded = -1;
      const int64_t end = planes * (piece + 1) / pieces;
      for (int64_t i = planes * piece / pieces; i < end && !IsCancelled(); ++i) {
        const int64_t source = i / g.group_out(), channel = i % g.out_channels;
        if (source != loaded) PadPlane(g, image + source * g.in_plane(), padded);
        loaded = source;
        DepthwisePlane plane = PlaneOf(g, padded);
        plane.weight = weight + channel * g.taps();
        if (bias != nullptr) plane.bias = bias[channel];
        plane.out = output + i * g.out_plane();
        depthwise_.plane(plane);
      }
    });
  }

  /// Copies the inside of a plane; the border is zero already.
  static void PadPlane(const ConvGeometry& g, const float* image, float* padded) {
    const ConvAxis &h = g.axes[1], &w = g.axes[2];
    const int64_t rows = std::min(h.in, PlaneRows(h) - h.pad), row = PlaneRows(w);
    const int64_t columns = std::min(w.in, row - w.pad);
    for (int64_t y = 0; y < rows && columns > 0; ++y) {
      std::copy_n(image + y * w.in, columns, padded + (y + h.pad) * row + w.pad);
    }
  }

  static DepthwisePlane PlaneOf(const ConvGeometry& g, const float* padded) {
    const ConvAxis &h = g.axes[1], &w = g.axes[2];
    DepthwisePlane plane;
    plane.plane = padded;
    plane.row = PlaneRows(w);
    plane.kernel_h = h.kernel;
    plane.kernel_w = w.kernel;
    plane.stride_h = h.stride;
    plane.stride_w = w.stride;
    plane.dilation_h = h.dilation;
    plane.dilation_w = w.dilation;
    plane.out_h = h.out;
    plane.out_w = w.out;
    plane.low = -kInfinity;
    plane.high = kInfinity;
    return plane;
  }

  ConvParams params_;
  int input_;
  WeightArg weight_, bias_;
  PadMode mode_;
  const GemmKernels& gemm_;
  const Im2colKernels& im2col_;
  const DepthwiseKernels& depthwise_;
  std::vector<PackedMatrix> packed_;  // one a group
};

}  // namespace
}  // namespace oort

OORT_LAYERS(conv) {
  for (int rank = 1; rank <= 3; ++rank) {
    const auto create = [rank](const LayerInit& init) {
      return std::make_unique<Conv>(init, rank);
    };
    for (OperatorSchema schema : {ConvModuleSchema(rank, false), ConvFunctionSchema(rank, false)}) {
      AddPrecisionParam(schema);
      registry.Add(schema, WithFloats(schema, create, CreateConvPlain(rank)));
    }
  }
}
