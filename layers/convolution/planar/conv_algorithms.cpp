// SPDX-License-Identifier: MIT
#include "layers/convolution/planar/conv_algorithms.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/checked.h"
#include "core/machine.h"
#include "core/parallel.h"
#include "layers/convolution/planar/conv_kernels.h"

namespace oort {
namespace {

size_t FloatBytes(int64_t floats) {
  return AlignUp(CheckedMultiply(static_cast<size_t>(floats), sizeof(float)), 64);
}

/// Whether filters of this shape may be those of a depthwise convolution; a volume must be flat,
/// too.
bool MayBeDepthwise(const Tensor& weight, int64_t groups) {
  return !weight.defined() || (groups > 1 && weight.dim(1) == 1);
}

/// Plane by plane, each padded in a scratch of its own.
class PlanarDepthwise final : public PreparedPlanarConv {
 public:
  PlanarDepthwise(const DepthwiseKernels& kernels, bool possible)
      : kernels_(kernels), possible_(possible) {}

  bool ReadsWeight() const override { return possible_; }

  size_t Scratch(const ConvGeometry& g, int threads) const override {
    return FloatBytes(CheckedMultiply<int64_t>(PlaneFloats(g), Pieces(g, threads)));
  }

  void Run(const Context& context, const ConvGeometry& g,
           const PlanarOperands& operands) const override {
    const int pieces = Pieces(g, context.threads());
    const int64_t planes = g.batch * g.out_channels;
    ParallelPieces(context.threads(), pieces, Grains(g), [&](int piece) {
      float* padded = context.workspace<float>() + piece * PlaneFloats(g);
      std::fill_n(padded, PlaneFloats(g), 0.0f);
      int64_t loaded = -1;
      const int64_t end = planes * (piece + 1) / pieces;
      for (int64_t i = planes * piece / pieces; i < end && !IsCancelled(); ++i) {
        const int64_t source = i / g.group_out(), channel = i % g.out_channels;
        if (source != loaded) PadPlane(g, operands.image + source * g.in_plane(), padded);
        loaded = source;
        DepthwisePlane plane = PlaneOf(g, padded);
        plane.weight = operands.weight + channel * g.taps();
        if (operands.bias != nullptr) plane.bias = operands.bias[channel];
        plane.out = operands.out + i * g.out_plane();
        kernels_.plane(plane);
      }
    });
  }

 private:
  /// Floats of one padded plane, with what the kernel may read behind it.
  int64_t PlaneFloats(const ConvGeometry& g) const {
    const int64_t floats = CheckedMultiply(PlaneRows(g.axes[1]), PlaneRows(g.axes[2]));
    return CheckedAdd<int64_t>(floats, kernels_.slack + 16) / 16 * 16;
  }
  /// Padded inputs that windows reach.
  static int64_t PlaneRows(const ConvAxis& axis) {
    return CheckedAdd(CheckedMultiply(axis.out - 1, axis.stride), axis.reach());
  }

  static double Grains(const ConvGeometry& g) { return 2 * g.multiplications() / GrainProducts(); }
  static int Pieces(const ConvGeometry& g, int threads) {
    const int64_t useful = ChoosePieces(threads, Grains(g), true);
    return static_cast<int>(std::clamp<int64_t>(g.batch * g.out_channels, 1, useful));
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
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
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

  const DepthwiseKernels& kernels_;
  bool possible_;  // for the weights of the layer
};

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

/// The matrix to multiply is the image itself.
bool IsPointwise(const ConvGeometry& g) {
  return std::ranges::all_of(g.axes, [](const ConvAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad == 0 && axis.pad_after == 0;
  });
}

/// Filters times windows, which are gathered panel by panel.
class PlanarImplicitGemm final : public PreparedPlanarConv {
 public:
  PlanarImplicitGemm(const GemmKernels& gemm, const Im2colKernels& im2col, const Tensor& weight,
                     int64_t groups)
      : gemm_(gemm), im2col_(im2col) {
    // Filters of planes are packed only if a volume may be deep: others are for PlanarDepthwise.
    if (!weight.defined() || (MayBeDepthwise(weight, groups) && weight.rank() < 5)) return;
    const int64_t rows = weight.dim(0) / groups, k = weight.shape().Product(1, weight.rank());
    for (int64_t g = 0; g < groups; ++g) {
      const MatrixSource source(gemm_, {weight.data<float>() + g * rows * k, 1, k});
      packed_.emplace_back(gemm_, GemmSide::kA, rows, k, source);
    }
  }

  bool ReadsWeight() const override { return packed_.empty(); }

  size_t Scratch(const ConvGeometry& g, int threads) const override {
    return FloatBytes(
        GemmBatchWorkspace(gemm_, SizeOf(g), CheckedMultiply(g.batch, g.groups), threads));
  }

  void Run(const Context& context, const ConvGeometry& g,
           const PlanarOperands& operands) const override {
    const GemmSize size = SizeOf(g);
    const float* image_end = operands.image + g.batch * g.in_channels * g.in_plane();
    const bool pointwise = IsPointwise(g);
    GemmBatch(gemm_, size, g.batch * g.groups, context.threads(), context.workspace<float>(),
              [&](int64_t i, int threads, float* space) {
                const int64_t group = i % g.groups;
                const float* channels = operands.image + i * g.group_in() * g.in_plane();
                const int64_t first = size.a_packed ? 0 : group * size.m * size.k;
                const MatrixSource rows(gemm_, {operands.weight + first, 1, size.k});
                const MatrixSource pixels(gemm_, {channels, g.in_plane(), 1});
                const Im2colSource windows(im2col_, {channels, image_end, g.axes});
                GemmProblem problem;
                problem.size = size;
                problem.a = &rows;
                if (size.a_packed) problem.packed = packed_[static_cast<size_t>(group)].panels();
                problem.b = pointwise ? static_cast<const PanelSource*>(&pixels) : &windows;
                problem.c = operands.out + i * size.m * size.n;
                problem.ldc = size.n;
                if (operands.bias != nullptr) problem.row_bias = operands.bias + group * size.m;
                Gemm(gemm_, problem, threads, space);
              });
  }

 private:
  GemmSize SizeOf(const ConvGeometry& g) const {
    return {g.group_out(), g.out_plane(), CheckedMultiply(g.group_in(), g.taps()), !packed_.empty(),
            false};
  }

  const GemmKernels& gemm_;
  const Im2colKernels& im2col_;
  std::vector<PackedMatrix> packed_;  // one a group, or none
};

class DepthwiseAlgorithm final : public PlanarConvAlgorithm {
 public:
  DepthwiseAlgorithm() : PlanarConvAlgorithm(kConvDepthwise) {}
  /// Each input channel has filters of its own, and volumes are flat.
  bool Accepts(const ConvGeometry& g) const override {
    return g.groups > 1 && g.groups == g.in_channels && g.axes[0].in == 1 &&
           g.axes[0].kernel == 1 && g.axes[0].pad == 0 && g.axes[0].pad_after == 0;
  }
  bool Wins(const ConvGeometry&) const override { return true; }
  std::unique_ptr<PreparedPlanarConv> Prepare(Isa isa, const GemmKernels&, const Tensor& weight,
                                              int64_t groups) const override {
    return std::make_unique<PlanarDepthwise>(DepthwiseKernelsFor(isa),
                                             MayBeDepthwise(weight, groups));
  }
};

class ImplicitGemmAlgorithm final : public PlanarConvAlgorithm {
 public:
  ImplicitGemmAlgorithm() : PlanarConvAlgorithm(kConvImplicitGemm) {}
  bool Accepts(const ConvGeometry&) const override { return true; }
  bool Wins(const ConvGeometry&) const override { return true; }
  std::unique_ptr<PreparedPlanarConv> Prepare(Isa isa, const GemmKernels& gemm,
                                              const Tensor& weight, int64_t groups) const override {
    return std::make_unique<PlanarImplicitGemm>(gemm, Im2colKernelsFor(isa), weight, groups);
  }
};

}  // namespace

std::span<const PlanarConvAlgorithm* const> PlanarConvAlgorithms() {
  // Each plane has one filter of its own, so that there is nothing to multiply as matrices.
  static const DepthwiseAlgorithm kDepthwise;
  // All others.
  static const ImplicitGemmAlgorithm kImplicitGemm;
  static const PlanarConvAlgorithm* const kList[] = {&kDepthwise, &kImplicitGemm};
  return kList;
}

}  // namespace oort
