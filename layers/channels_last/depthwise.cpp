// SPDX-License-Identifier: MIT
#include "layers/channels_last/depthwise.h"

#include <algorithm>

#include "core/checked.h"

namespace oort {
namespace {

constexpr int64_t kLineFloats = 16;

}  // namespace

DepthwiseConv::DepthwiseConv(Isa isa, const Tensor& weight)
    : kernels_(PixelDepthwiseKernelsFor(isa)), channels_(weight.dim(0)) {
  const int64_t taps = weight.shape().Product(1, weight.rank());
  const int64_t row = CeilDivide(channels_, kLineFloats) * kLineFloats;
  weight_ = Tensor::Zeros(DType::kF32, {taps, row});
  const float* from = weight.data<float>();
  float* to = weight_.data<float>();
  for (int64_t c = 0; c < channels_; ++c) {
    for (int64_t t = 0; t < taps; ++t) to[t * row + c] = from[c * taps + t];
  }
}

/// Channels that are done together: few enough that the rows under the kernel stay in the L1 cache
/// until the next row of outputs needs them again, in whole cache lines.
int64_t DepthwiseConv::BlockOf(const ConvGeometry& g) const {
  constexpr int64_t kCachedFloats = 10 * 1024;
  const ConvAxis &height = g.axes[1], &width = g.axes[2];
  const int64_t rows = std::min(height.in, height.kernel + height.stride);
  const int64_t pixels = std::max<int64_t>(1, rows * width.in);
  return std::max(kLineFloats, kCachedFloats / pixels / kLineFloats * kLineFloats);
}

void DepthwiseConv::Run(const Context& context, const ConvGeometry& g,
                        const Operands& operands) const {
  constexpr int64_t kWork = 64 * 1024;  // multiplications that are worth a thread
  const int64_t block = std::min(BlockOf(g), channels_);
  const int64_t blocks = CeilDivide(channels_, block), rows = g.axes[1].out;
  const int64_t grain = kWork / std::max<int64_t>(1, g.axes[2].out * block * g.taps()) + 1;
  context.ParallelFor(g.batch * blocks * rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / (blocks * rows), channel = i / rows % blocks * block;
      RunRow(g, operands, image * rows + i % rows, channel, std::min(block, channels_ - channel));
    }
  });
}

/// Row `row` of all outputs, `count` channels from `channel` on.
void DepthwiseConv::RunRow(const ConvGeometry& g, const Operands& operands, int64_t row,
                           int64_t channel, int64_t count) const {
  const ConvAxis &height = g.axes[1], &width = g.axes[2];
  const int64_t image = row / height.out, start = row % height.out * height.stride - height.pad;
  const int64_t skip = start < 0 ? CeilDivide(-start, height.dilation) : 0;
  const int64_t end = start < height.in ? CeilDivide(height.in - start, height.dilation) : 0;
  PixelDepthwiseRow r;
  r.in = operands.in + image * height.in * width.in * operands.in_pixel + channel;
  r.in_row = width.in * operands.in_pixel;
  r.in_pixel = operands.in_pixel;
  r.in_width = width.in;
  r.rows = std::max<int64_t>(0, std::min(height.kernel, end) - skip);
  r.top = r.rows == 0 ? 0 : start + skip * height.dilation;
  r.row_dilation = height.dilation;
  r.weight_tap = weight_.dim(1);
  r.weight = weight_.data<float>() + channel;
  if (r.rows > 0) r.weight += skip * width.kernel * r.weight_tap;
  r.bias = operands.bias == nullptr ? nullptr : operands.bias + channel;
  r.kernel = width.kernel;
  r.stride = width.stride;
  r.pad = width.pad;
  r.dilation = width.dilation;
  const int64_t pixel = row * width.out;
  r.addend_pixel = operands.addend_pixel;
  r.addend =
      operands.addend == nullptr ? nullptr : operands.addend + pixel * r.addend_pixel + channel;
  r.out = operands.out + pixel * operands.out_pixel + channel;
  r.out_pixel = operands.out_pixel;
  r.out_width = width.out;
  r.channels = count;
  r.activation = operands.activation;
  kernels_.row(r);
}

}  // namespace oort
