// SPDX-License-Identifier: MIT
#include "layers/convolution/depthwise/depthwise.h"

#include <algorithm>

#include "core/checked.h"
#include "core/machine.h"

namespace oort {

template <typename T>
DepthwiseConvOf<T>::DepthwiseConvOf(Isa isa, const Tensor& weight)
    : kernels_(NhwcDepthwiseKernelsFor<T>(isa)), channels_(weight.dim(0)) {
  const int64_t taps = weight.shape().Product(1, weight.rank()), lanes = kernels_.lanes;
  weight_ = Tensor::Zeros(kDTypeOf<T>, {CeilDivide(channels_, lanes), taps, lanes});
  const float* from = weight.data<float>();
  T* to = weight_.data<T>();
  for (int64_t c = 0; c < channels_; ++c) {
    for (int64_t t = 0; t < taps; ++t) to[(c / lanes * taps + t) * lanes + c % lanes] = T(*from++);
  }
}

/// Channels that are done together: few enough that the rows under the kernel stay in the L1 cache
/// until the next row of outputs needs them again, but enough to read memory in long runs.
template <typename T>
int64_t DepthwiseConvOf<T>::BlockOf(const ConvGeometry& g) const {
  // Of a line of the cache; some of them are whole vectors, too.
  constexpr int64_t kLineChannels = 64 / sizeof(T);
  constexpr int64_t kLeast = 96, kItem = sizeof(T);
  const int64_t cached = CacheBlock(40 * 1024, ThisMachine().l1, 5.0 / 6) / kItem;
  const ConvAxis &height = g.axes[1], &width = g.axes[2];
  const int64_t rows = std::min(height.in, height.kernel + 2 * height.stride);
  const int64_t pixels = std::max<int64_t>(1, rows * width.in);
  return std::max(kLeast, cached / pixels / kLineChannels * kLineChannels);
}

template <typename T>
void DepthwiseConvOf<T>::Run(const Context& context, const ConvGeometry& g,
                             const Operands& operands) const {
  const int64_t block = std::min(BlockOf(g), channels_);
  const int64_t blocks = CeilDivide(channels_, block), pairs = CeilDivide(g.axes[1].out, 2);
  const auto work = static_cast<int64_t>(GrainProducts());
  const int64_t grain = work / std::max<int64_t>(1, 2 * g.axes[2].out * block * g.taps()) + 1;
  context.ParallelFor(g.batch * blocks * pairs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / (blocks * pairs), channel = i / pairs % blocks * block;
      RunRows(g, operands, image, i % pairs * 2, channel, std::min(block, channels_ - channel));
    }
  });
}

/// Up to two rows of outputs of image `image` from row `y` on, `count` channels from `channel` on.
template <typename T>
void DepthwiseConvOf<T>::RunRows(const ConvGeometry& g, const Operands& operands, int64_t image,
                                 int64_t y, int64_t channel, int64_t count) const {
  const ConvAxis &height = g.axes[1], &width = g.axes[2];
  const int64_t pixel = (image * height.out + y) * width.out;
  NhwcDepthwiseRowsOf<T> r;
  r.in = operands.in + image * height.in * width.in * operands.in_pixel + channel;
  r.in_height = height.in;
  r.in_width = width.in;
  r.in_row = width.in * operands.in_pixel;
  r.in_pixel = operands.in_pixel;
  r.top = y * height.stride - height.pad;
  r.left = -width.pad;
  r.down = {height.kernel, height.stride, height.dilation};
  r.along = {width.kernel, width.stride, width.dilation};
  r.weight = weight_.template data<T>() + channel * g.taps();
  r.bias = operands.bias == nullptr ? nullptr : operands.bias + channel;
  const int64_t offset = pixel * operands.out_pixel + channel;
  r.addend = operands.addend == nullptr ? nullptr : operands.addend + offset;
  r.out = operands.out + offset;
  r.out_row = width.out * operands.out_pixel;
  r.out_pixel = operands.out_pixel;
  r.out_rows = std::min<int64_t>(2, height.out - y);
  r.out_width = width.out;
  r.channels = count;
  r.activation = operands.activation;
  kernels_.rows(r);
}

template class DepthwiseConvOf<float>;
template class DepthwiseConvOf<Half>;

}  // namespace oort
