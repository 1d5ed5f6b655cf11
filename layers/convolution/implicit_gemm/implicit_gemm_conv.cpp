// SPDX-License-Identifier: MIT
#include "layers/convolution/implicit_gemm/implicit_gemm_conv.h"

#include "core/checked.h"
#include "layers/convolution/implicit_gemm/windows.h"

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

}  // namespace

ImplicitGemmConv::ImplicitGemmConv(Isa isa, const GemmKernels& gemm, const Tensor& weight,
                                   const Tensor& bias, int64_t groups)
    : gemm_(gemm),
      interleave_(InterleaveKernelsFor(isa)),
      zeros_(Tensor::Zeros(DType::kF32, {weight.dim(1)})),
      bias_(bias) {
  const Tensor moved = MoveChannels(weight);
  const int64_t columns = weight.dim(0) / groups, k = weight.shape().Product(1, 4);
  for (int64_t g = 0; g < groups; ++g) {
    const MatrixSource source(gemm_, {moved.data<float>() + g * columns * k, 1, k});
    packed_.emplace_back(gemm_, GemmSide::kB, columns, k, source);
  }
}

bool ImplicitGemmConv::TakesScale(const ConvGeometry& g) const {
  return gemm_.scales && g.IsEachPixel() && g.batch == 1 && g.groups == 1 &&
         g.out_plane() > 1;  // of one pixel nothing is packed
}

GemmSize ImplicitGemmConv::SizeOf(const ConvGeometry& g) {
  return {CheckedMultiply(g.batch, g.out_plane()), g.group_out(),
          CheckedMultiply(g.group_in(), g.taps()), false, true};
}

size_t ImplicitGemmConv::Workspace(const ConvGeometry& g, int threads) const {
  const int64_t floats = GemmBatchWorkspace(gemm_, SizeOf(g), g.groups, threads);
  return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
}

void ImplicitGemmConv::Run(const Context& context, const ConvGeometry& g,
                           const ConvOperandsOf<float>& operands) const {
  const GemmSize size = SizeOf(g);
  NhwcWindows windows;
  windows.pixel = operands.in_pixel;
  windows.channels = g.group_in();
  windows.height = g.axes[1];
  windows.width = g.axes[2];
  windows.zeros = zeros_.data<float>();
  const bool each_pixel = g.IsEachPixel();
  GemmBatch(
      gemm_, size, g.groups, context.threads(), context.workspace<float>(),
      [&](int64_t group, int threads, float* space) {
        NhwcWindows part = windows;
        part.image = operands.in + group * g.group_in();
        const NhwcSource gathered(interleave_, part);
        const MatrixSource as_it_lies(gemm_, {part.image, 1, operands.in_pixel}, operands.scale);
        const int64_t first = group * size.n;
        GemmProblem problem;
        problem.size = size;
        problem.a = &gathered;
        if (each_pixel) problem.a = &as_it_lies;
        problem.packed = packed_[static_cast<size_t>(group)].panels();
        problem.c = operands.out + first;
        problem.ldc = operands.out_pixel;
        if (bias_.defined()) problem.column_bias = bias_.data<float>() + first;
        if (operands.addend != nullptr) problem.addend = operands.addend + first;
        problem.addend_stride = operands.out_pixel;
        problem.activation = operands.activation;
        Gemm(gemm_, problem, threads, space);
      });
}

}  // namespace oort
