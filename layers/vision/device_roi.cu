// SPDX-License-Identifier: MIT
#include "layers/vision/device_roi.h"

#include "cuda/launch.h"

namespace oort {
namespace {

constexpr int kRoiThreads = 128;

struct RoiShape {
  int64_t images, channels, height, width;  // of the input
  int64_t out_channels, bins_down, bins_along;
};

/// One bin along one axis.
template <typename Real>
struct RoiBin {
  Real first, bin, samples;
  double from, to;  // of the samples, those that may lie in the image
  bool finite;

  __device__ RoiBin(Real start, Real end, const DeviceRoi& call, int64_t bins, int64_t index,
                    int64_t extent) {
    Real length = end - start;
    if (!call.aligned && length < Real(1)) length = Real(1);
    bin = length / static_cast<Real>(bins);
    samples = call.samples <= 0 ? ceil(bin) : static_cast<Real>(call.samples);
    first = start + static_cast<Real>(index) * bin;
    finite = isfinite(first) && isfinite(bin);
    from = 0;
    to = static_cast<double>(samples);
    if (call.samples <= 0 && samples > 0) {
      const double step = static_cast<double>(bin) / static_cast<double>(samples);
      from = fmax(from, floor((-1 - static_cast<double>(first)) / step) - 2);
      to = fmin(to, ceil((static_cast<double>(extent) - static_cast<double>(first)) / step) + 2);
      if (!(from < 0x1p50)) to = 0;
    }
  }

  /// A sample between two elements: false where it is more than one element outside.
  __device__ bool At(double i, int64_t extent, int64_t& low, Real& part) const {
    Real at = first + static_cast<Real>(i + 0.5) * bin / samples;
    if (!(at >= -1 && at <= static_cast<Real>(extent))) return false;
    at = at < 0 ? Real(0) : at;
    low = static_cast<int64_t>(at);
    part = at - static_cast<Real>(low);
    if (low >= extent - 1) {
      low = extent - 1;
      part = 0;
    }
    return true;
  }
};

template <typename Real>
__device__ Real RoiMean(const DeviceRoi& call, const RoiShape& shape, const Real* plane,
                        const RoiBin<Real>& rows, const RoiBin<Real>& columns) {
  if (!rows.finite || !columns.finite) return static_cast<Real>(NAN);
  Real sum = 0;
  for (double i = rows.from; i < rows.to; ++i) {
    int64_t y;
    Real down;
    if (!rows.At(i, shape.height, y, down)) continue;
    const Real* row = plane + y * shape.width;
    const Real* below = down > 0 ? row + shape.width : row;
    for (double j = columns.from; j < columns.to; ++j) {
      int64_t x;
      Real along;
      if (!columns.At(j, shape.width, x, along)) continue;
      const int64_t next = along > 0 ? x + 1 : x;
      const Real top = row[x] * (1 - along) + row[next] * along;
      const Real bottom = below[x] * (1 - along) + below[next] * along;
      sum += top * (1 - down) + bottom * down;
    }
  }
  Real count = rows.samples * columns.samples;
  if (!call.position_sensitive && count < Real(1)) count = Real(1);
  return sum / count;
}

template <typename Real>
__global__ void AlignRegions(const DeviceRoi call, const RoiShape shape, const Real* input,
                             const Real* boxes, Real* output, int64_t total) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= total) return;
  const int64_t w = at % shape.bins_along, h = at / shape.bins_along % shape.bins_down;
  const int64_t bins = shape.bins_down * shape.bins_along;
  const int64_t c = at / bins % shape.out_channels;
  const Real* box = boxes + at / bins / shape.out_channels * 5;
  const Real image = trunc(box[0]);
  if (!(image >= 0 && image < static_cast<Real>(shape.images))) {
    output[at] = 0;
    return;
  }
  const Real scale = static_cast<Real>(call.scale), shift = call.aligned ? Real(0.5) : Real(0);
  const auto corner = [&](int i) { return box[i] * scale - shift; };
  const RoiBin<Real> rows(corner(2), corner(4), call, shape.bins_down, h, shape.height);
  const RoiBin<Real> columns(corner(1), corner(3), call, shape.bins_along, w, shape.width);
  const int64_t channel =
      call.position_sensitive ? (c * shape.bins_down + h) * shape.bins_along + w : c;
  const int64_t plane = static_cast<int64_t>(image) * shape.channels + channel;
  output[at] = RoiMean(call, shape, input + plane * shape.height * shape.width, rows, columns);
}

}  // namespace

void RoiAlignOnDevice(cuda::Stream& stream, const DeviceRoi& call, const Tensor& input,
                      const Tensor& boxes, Tensor& output) {
  const RoiShape shape = {input.dim(0),  input.dim(1),  input.dim(2), input.dim(3),
                          output.dim(1), output.dim(2), output.dim(3)};
  if (shape.height * shape.width == 0) return stream.Fill(output.raw(), 0, output.bytes());
  const auto run = [&]<typename Real>(Real*) {
    cuda::Launch(stream, {dim3(cuda::BlocksFor(output.elements(), kRoiThreads)), dim3(kRoiThreads)},
                 &AlignRegions<Real>, call, shape, input.data<Real>(), boxes.data<Real>(),
                 output.data<Real>(), output.elements());
  };
  if (output.dtype() == DType::kF64) return run(static_cast<double*>(nullptr));
  run(static_cast<float*>(nullptr));
}

namespace {

__global__ void NumberChannels(int32_t* out, int64_t count, int64_t total) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < total) out[at] = static_cast<int32_t>(at % count);
}

}  // namespace

void RoiChannelsOnDevice(cuda::Stream& stream, Tensor& channels) {
  const int64_t total = channels.elements();
  cuda::Launch(stream, {dim3(cuda::BlocksFor(total, kRoiThreads)), dim3(kRoiThreads)},
               &NumberChannels, channels.data<int32_t>(), channels.shape().Product(1, 4), total);
}

}  // namespace oort
