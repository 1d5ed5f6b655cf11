// SPDX-License-Identifier: MIT
#include "layers/quantize/device_bytes.h"

#include "cuda/kernel_launch.h"
#include "cuda/kernel_tools.h"
#include "layers/quantize/quantizer.h"

namespace oort {
namespace {

constexpr int kByteThreads = 256;

bool IsAlignedForPieces(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

template <typename Job>
void LaunchBytes(const cuda::Stream& stream, void (*kernel)(Job), const Job& job, int64_t items) {
  constexpr int64_t kMostBlocks = 132 * 64;
  const int64_t blocks = (items + kByteThreads - 1) / kByteThreads;
  if (blocks == 0) return;
  cuda::KernelLaunch launch;
  launch.kernel = reinterpret_cast<const void*>(kernel);
  launch.blocks = dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks));
  launch.threads = kByteThreads;
  launch.overlap = true;
  cuda::Launch(stream, launch, &job);
}

/// Calls body(i) for the items of this thread, after the kernel before it is done.
template <typename Body>
__device__ void ForItems(int64_t items, Body body) {
  cuda::LaunchDependents();
  cuda::WaitForPredecessor();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < items;
       i += int64_t{gridDim.x} * blockDim.x) {
    body(i);
  }
}

struct QuantizeJob {
  const float* x;
  uint8_t* y;
  int64_t count, pieces;  // pieces of four are done at once
  float inverse, low, high;
  int32_t zero_point;
};

__device__ uint32_t QuantizedByte(const QuantizeJob& job, float x) {
  float value = __fmul_rn(x, job.inverse);
  value = value == value ? value : 0.0f;  // what is no number becomes the zero point
  value = value > job.low ? value : job.low;
  value = value < job.high ? value : job.high;
  return static_cast<uint32_t>(__float2int_rn(value) + job.zero_point) & 0xffu;
}

__global__ void __launch_bounds__(kByteThreads)
    QuantizeKernel(const __grid_constant__ QuantizeJob job) {
  ForItems(job.pieces + job.count - 4 * job.pieces, [&](int64_t i) {
    if (i < job.pieces) {
      const float4 x = reinterpret_cast<const float4*>(job.x)[i];
      reinterpret_cast<uint32_t*>(job.y)[i] =
          QuantizedByte(job, x.x) | QuantizedByte(job, x.y) << 8 | QuantizedByte(job, x.z) << 16 |
          QuantizedByte(job, x.w) << 24;
    } else {
      const int64_t at = 3 * job.pieces + i;
      job.y[at] = static_cast<uint8_t>(QuantizedByte(job, job.x[at]));
    }
  });
}

struct QuantizeImageJob {
  QuantizeJob numbers;
  int64_t pixels;
  int height, width, out_height, out_width, top, left;
  int given, channels;
};

/// A thread for each pixel of the result.
__global__ void __launch_bounds__(kByteThreads)
    QuantizeImageKernel(const __grid_constant__ QuantizeImageJob job) {
  const QuantizeJob& numbers = job.numbers;
  const int64_t plane = int64_t{job.height} * job.width;
  ForItems(job.pixels, [&](int64_t i) {
    const int64_t row = i / job.out_width, image = row / job.out_height;
    const int y = static_cast<int>(row % job.out_height) - job.top;
    const int x = static_cast<int>(i % job.out_width) - job.left;
    const bool inside = static_cast<unsigned>(y) < static_cast<unsigned>(job.height) &&
                        static_cast<unsigned>(x) < static_cast<unsigned>(job.width);
    const float* from = numbers.x + image * job.given * plane + int64_t{y} * job.width + x;
    const int given = inside ? job.given : 0;
    uint8_t* to = numbers.y + i * job.channels;
    if (job.channels == 4) {
      uint32_t word = 0;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        word |= QuantizedByte(numbers, c < given ? from[c * plane] : 0) << (8 * c);
      }
      *reinterpret_cast<uint32_t*>(to) = word;
      return;
    }
    for (int c = 0; c < job.channels; ++c) {
      to[c] = static_cast<uint8_t>(QuantizedByte(numbers, c < given ? from[c * plane] : 0));
    }
  });
}

struct DequantizeJob {
  const uint8_t* x;
  float* y;
  const float* scales;
  const int32_t* zero_points;
  int64_t count, channels, inner;
  bool is_signed;
};

__global__ void __launch_bounds__(kByteThreads)
    DequantizeKernel(const __grid_constant__ DequantizeJob job) {
  ForItems(job.count, [&](int64_t i) {
    const int64_t channel = job.channels == 1 ? 0 : i / job.inner % job.channels;
    const int32_t byte = job.is_signed ? static_cast<int8_t>(job.x[i]) : job.x[i];
    job.y[i] = __fmul_rn(__int2float_rn(byte - job.zero_points[channel]), job.scales[channel]);
  });
}

struct AddJob {
  ByteSum sum;
  int64_t count, pieces;
};

__device__ uint32_t SummedByte(const ByteSum& sum, uint32_t a, uint32_t b) {
  const float x = static_cast<float>((a ^ sum.flip_a) & 0xffu);
  const float y = static_cast<float>((b ^ sum.flip_b) & 0xffu);
  float value = __fmaf_rn(x, sum.scale_a, __fmaf_rn(y, sum.scale_b, sum.rest));
  value = value > sum.low ? value : sum.low;
  value = value < sum.high ? value : sum.high;
  return (static_cast<uint32_t>(__float2int_rn(value) + sum.zero_point) ^ sum.flip_out) & 0xffu;
}

__global__ void __launch_bounds__(kByteThreads) AddBytesKernel(const __grid_constant__ AddJob job) {
  ForItems(job.pieces + job.count - 4 * job.pieces, [&](int64_t i) {
    if (i < job.pieces) {
      const uint32_t a = reinterpret_cast<const uint32_t*>(job.sum.a)[i];
      const uint32_t b = reinterpret_cast<const uint32_t*>(job.sum.b)[i];
      uint32_t word = 0;
#pragma unroll
      for (int c = 0; c < 32; c += 8) word |= SummedByte(job.sum, a >> c, b >> c) << c;
      reinterpret_cast<uint32_t*>(job.sum.out)[i] = word;
    } else {
      const int64_t at = 3 * job.pieces + i;
      job.sum.out[at] = static_cast<uint8_t>(SummedByte(job.sum, job.sum.a[at], job.sum.b[at]));
    }
  });
}

struct MultiplyJob {
  ByteProduct product;
  int64_t items;  // each a word of four bytes, or a byte
  int64_t times, inner;
};

__device__ uint32_t MultipliedByte(const ByteProduct& product, uint32_t a, uint32_t b) {
  const int32_t x = static_cast<int32_t>((a ^ product.flip_a) & 0xffu) - product.zero_a;
  const int32_t y = static_cast<int32_t>((b ^ product.flip_b) & 0xffu) - product.zero_b;
  float value = __fmul_rn(__int2float_rn(x * y), product.scale);
  value = value > product.low ? value : product.low;
  value = value < product.high ? value : product.high;
  const auto rounded = static_cast<uint32_t>(__float2int_rn(value) + product.zero_point);
  return (rounded ^ product.flip_out) & 0xffu;
}

/// Word: uint32_t, whose four bytes are neighbours of one row, or uint8_t.
template <typename Word>
__global__ void __launch_bounds__(kByteThreads)
    MultiplyBytesKernel(const __grid_constant__ MultiplyJob job) {
  const ByteProduct& product = job.product;
  const int64_t row = job.inner / static_cast<int64_t>(sizeof(Word));
  ForItems(job.items, [&](int64_t i) {
    const int64_t factor = i / row / job.times * row + i % row;
    const uint32_t a = reinterpret_cast<const Word*>(product.a)[i];
    const uint32_t b = reinterpret_cast<const Word*>(product.b)[factor];
    uint32_t word = 0;
#pragma unroll
    for (int c = 0; c < 8 * static_cast<int>(sizeof(Word)); c += 8) {
      word |= MultipliedByte(product, a >> c, b >> c) << c;
    }
    reinterpret_cast<Word*>(product.out)[i] = static_cast<Word>(word);
  });
}

struct TableJob {
  const uint8_t* x;
  const uint8_t* table;
  uint8_t* y;
  int64_t count, pieces;
};

__global__ void __launch_bounds__(kByteThreads)
    ByteTableKernel(const __grid_constant__ TableJob job) {
  static_assert(kByteThreads == 256);
  __shared__ uint8_t table[256];
  table[threadIdx.x] = job.table[threadIdx.x];  // no kernel writes it
  __syncthreads();
  ForItems(job.pieces + job.count - 4 * job.pieces, [&](int64_t i) {
    if (i < job.pieces) {
      const uint32_t x = reinterpret_cast<const uint32_t*>(job.x)[i];
      uint32_t word = 0;
#pragma unroll
      for (int c = 0; c < 32; c += 8) word |= uint32_t{table[x >> c & 0xffu]} << c;
      reinterpret_cast<uint32_t*>(job.y)[i] = word;
    } else {
      const int64_t at = 3 * job.pieces + i;
      job.y[at] = table[job.x[at]];
    }
  });
}

struct MeanRange {
  int64_t begin, count;
  int64_t divisor;  // of this axis
};

__device__ MeanRange MeanRangeAt(const DevicePool::Axis& axis, int64_t i, bool include_pad) {
  const WindowAxis& w = axis.window;
  if (axis.adaptive) {
    const int64_t begin = i * w.in / w.out, end = ((i + 1) * w.in + w.out - 1) / w.out;
    return {begin, end - begin, end - begin};
  }
  const WindowAxis::Taps taps = w.At(i);
  return {taps.begin, taps.count, include_pad ? w.PaddedCount(i) : taps.count};
}

struct MeansJob {
  DeviceByteMeans means;
  const uint8_t* x;
  uint8_t* y;
  int64_t outputs;  // of all images
  bool is_signed;
};

constexpr int kMeanParts = 8, kMeanPlaces = kByteThreads / kMeanParts;

/// A window of `count` neighbouring channels for each place of a block, whose parts share its
/// inputs.
template <int count>
__global__ void __launch_bounds__(kByteThreads) MeansKernel(const __grid_constant__ MeansJob job) {
  __shared__ int shared[kMeanParts][count][kMeanPlaces];
  cuda::LaunchDependents();
  const DeviceByteMeans& means = job.means;
  const WindowAxis &rows = means.pool.axes[1].window, &columns = means.pool.axes[2].window;
  const int place = threadIdx.x % kMeanPlaces, part = threadIdx.x / kMeanPlaces;
  const int64_t i = (blockIdx.x * int64_t{kMeanPlaces} + place) * count;
  const bool here = i < job.outputs;
  const int64_t channel = i % means.channels, pixel = i / means.channels;
  const int64_t out_x = pixel % columns.out, out_y = pixel / columns.out % rows.out;
  const int64_t image = pixel / columns.out / rows.out;
  const MeanRange down = MeanRangeAt(means.pool.axes[1], out_y, means.pool.include_pad);
  const MeanRange along = MeanRangeAt(means.pool.axes[2], out_x, means.pool.include_pad);
  const auto taps = static_cast<int>(down.count * along.count);
  const int wide = max(1, static_cast<int>(along.count));
  int sums[count] = {};
  cuda::WaitForPredecessor();
  if (here) {
    const uint8_t* x = job.x + image * means.channels * rows.in * columns.in +
                       channel * means.in_channel +
                       (down.begin * columns.in + along.begin) * means.in_pixel;
    int r = part / wide, s = part % wide;
#pragma unroll 4
    for (int tap = part; tap < taps; tap += kMeanParts) {
      const uint8_t* at = x + (int64_t{r} * columns.in + s) * means.in_pixel;
      const uint32_t word = count == 4 ? *reinterpret_cast<const uint32_t*>(at) : *at;
#pragma unroll
      for (int c = 0; c < count; ++c) {
        const uint32_t byte = word >> (8 * c) & 0xffu;
        sums[c] += job.is_signed ? static_cast<int8_t>(byte) : static_cast<int>(byte);
      }
      for (s += kMeanParts; s >= wide; ++r) s -= wide;
    }
  }
#pragma unroll
  for (int c = 0; c < count; ++c) shared[part][c][place] = sums[c];
  __syncthreads();
  if (part != 0 || !here) return;
  const int64_t divisor =
      means.pool.override_with != 0 ? means.pool.override_with : down.divisor * along.divisor;
  const auto factor =
      static_cast<float>(means.in_scale / means.out_scale / static_cast<double>(divisor));
  uint8_t* y = job.y + image * means.channels * rows.out * columns.out +
               channel * means.out_channel + (out_y * columns.out + out_x) * means.out_pixel;
#pragma unroll
  for (int c = 0; c < count; ++c) {
    int sum = sums[c] - taps * means.in_zero_point;
    for (int other = 1; other < kMeanParts; ++other) sum += shared[other][c][place];
    float value = __fmul_rn(__int2float_rn(sum), factor);
    value = value > means.low ? value : means.low;
    value = value < means.high ? value : means.high;
    y[c] = static_cast<uint8_t>(__float2int_rn(value) + means.out_zero_point);
  }
}

const uint8_t* BytesOf(const Tensor& tensor) {
  return reinterpret_cast<const uint8_t*>(tensor.raw());
}
uint8_t* BytesOf(Tensor& tensor) { return reinterpret_cast<uint8_t*>(tensor.raw()); }

QuantizeJob QuantizeJobOf(const Tensor& x, float inverse, int32_t zero_point, Tensor& y) {
  QuantizeJob job = {x.data<float>(), BytesOf(y), y.elements(), 0, inverse, 0, 0, zero_point};
  job.low = static_cast<float>(LeastByte(y.dtype()) - zero_point);
  job.high = static_cast<float>(MostByte(y.dtype()) - zero_point);
  return job;
}

}  // namespace

void QuantizeOnDevice(cuda::Stream& stream, const Tensor& x, float inverse, int32_t zero_point,
                      Tensor& y) {
  QuantizeJob job = QuantizeJobOf(x, inverse, zero_point, y);
  if (IsAlignedForPieces(job.x) && IsAlignedForPieces(job.y)) job.pieces = job.count / 4;
  LaunchBytes(stream, &QuantizeKernel, job, job.count - 3 * job.pieces);
}

void QuantizeImageOnDevice(cuda::Stream& stream, const Tensor& x, float inverse, int32_t zero_point,
                           Tensor& y) {
  const int rank = x.rank();
  const auto narrow = [](int64_t extent) {
    if (extent < int64_t{1} << 30) return static_cast<int>(extent);
    throw Error(ErrorCode::kUnsupported, "the picture is too large for the GPU");
  };
  QuantizeImageJob job = {};
  job.numbers = QuantizeJobOf(x, inverse, zero_point, y);
  job.given = narrow(x.dim(rank - 3));
  job.height = narrow(x.dim(rank - 2));
  job.width = narrow(x.dim(rank - 1));
  job.out_height = narrow(y.dim(rank - 3));
  job.out_width = narrow(y.dim(rank - 2));
  job.channels = narrow(y.dim(rank - 1));
  job.top = (job.out_height - job.height) / 2;
  job.left = (job.out_width - job.width) / 2;
  job.pixels = y.elements() / job.channels;
  LaunchBytes(stream, &QuantizeImageKernel, job, job.pixels);
}

void DequantizeOnDevice(cuda::Stream& stream, const Tensor& x, const DeviceDequantize& by,
                        Tensor& y) {
  const DequantizeJob job = {BytesOf(x),
                             y.data<float>(),
                             by.scales.data<float>(),
                             by.zero_points.data<int32_t>(),
                             x.elements(),
                             by.scales.elements(),
                             by.inner,
                             x.dtype() == DType::kI8};
  LaunchBytes(stream, &DequantizeKernel, job, job.count);
}

void AddBytesOnDevice(cuda::Stream& stream, const ByteSum& sum, int64_t count) {
  AddJob job = {sum, count, 0};
  if (IsAlignedForPieces(sum.a) && IsAlignedForPieces(sum.b) && IsAlignedForPieces(sum.out)) {
    job.pieces = count / 4;
  }
  LaunchBytes(stream, &AddBytesKernel, job, count - 3 * job.pieces);
}

void MultiplyBytesOnDevice(cuda::Stream& stream, const ByteProduct& product, int64_t count,
                           int64_t times, int64_t inner) {
  const bool words = inner % 4 == 0 && IsAlignedForPieces(product.a) &&
                     IsAlignedForPieces(product.b) && IsAlignedForPieces(product.out);
  const MultiplyJob job = {product, words ? count / 4 : count, times, inner};
  LaunchBytes(stream, words ? &MultiplyBytesKernel<uint32_t> : &MultiplyBytesKernel<uint8_t>, job,
              job.items);
}

void ByteTableOnDevice(cuda::Stream& stream, const Tensor& x, const Tensor& table, Tensor& y) {
  TableJob job = {BytesOf(x), BytesOf(table), BytesOf(y), x.elements(), 0};
  if (IsAlignedForPieces(job.x) && IsAlignedForPieces(job.y)) job.pieces = job.count / 4;
  LaunchBytes(stream, &ByteTableKernel, job, job.count - 3 * job.pieces);
}

void MeansOfBytesOnDevice(cuda::Stream& stream, const DeviceByteMeans& means, const Tensor& x,
                          Tensor& y) {
  const MeansJob job = {means, BytesOf(x), BytesOf(y), y.elements(), x.dtype() == DType::kI8};
  // Neighbouring channels of a pixel are words where they are whole ones.
  const bool words = means.in_channel == 1 && means.out_channel == 1 && means.channels % 4 == 0 &&
                     reinterpret_cast<uintptr_t>(job.x) % 4 == 0;
  const int64_t places = words ? job.outputs / 4 : job.outputs;
  const int64_t blocks = (places + kMeanPlaces - 1) / kMeanPlaces;
  if (blocks >= int64_t{1} << 31) {
    throw Error(ErrorCode::kUnsupported, "too many windows to take means of");
  }
  cuda::KernelLaunch launch;
  launch.kernel = words ? reinterpret_cast<const void*>(&MeansKernel<4>)
                        : reinterpret_cast<const void*>(&MeansKernel<1>);
  launch.blocks = dim3(static_cast<unsigned>(blocks));
  launch.threads = kByteThreads;
  launch.overlap = true;
  cuda::Launch(stream, launch, &job);
}

}  // namespace oort
