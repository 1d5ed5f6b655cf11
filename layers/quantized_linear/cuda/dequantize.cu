// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/dequantize.h"

#include "cuda/elements.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/quantized_linear/cuda/row_activation.h"

namespace oort::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float ScaleAt(const unsigned char* scales, int place, bool f32) {
  if (f32) return reinterpret_cast<const float*>(scales)[place];
  return __half2float(reinterpret_cast<const __half*>(scales)[place]);
}

/// The weight of a row and a column of packed weights.
__device__ __forceinline__ float WeightAt(const DeviceWeights& w, int64_t row, int column) {
  if (w.format == DeviceFormat::kBf16) {
    return __bfloat162float(
        static_cast<const __nv_bfloat16*>(w.data)[row * w.row_elements + column]);
  }
  if (w.format == DeviceFormat::kF16) {
    return __half2float(static_cast<const __half*>(w.data)[row * w.row_elements + column]);
  }
  const int r = static_cast<int>(row % kStripRows), c = column % kStepColumns;
  const unsigned char* record =
      static_cast<const unsigned char*>(w.data) +
      (row / kStripRows * w.steps + column / kStepColumns) * RecordBytes(w);
  const WeightPlace place = PlaceOf(w.format, r, c);
  int q = record[place.byte] >> place.shift;
  q = w.format == DeviceFormat::kInt8 ? q - 128 : (q & 15) - (w.zero_based ? 0 : 8);
  const unsigned char* scales = record + WeightBytes(w.format);
  const int at = ScalePlace(w, r, c / kChunkColumns);
  float value = ScaleAt(scales, at, w.f32_scales) * static_cast<float>(q);
  if (w.has_minimum) value += ScaleAt(scales + ScaleBytes(w), at, w.f32_scales);
  return value;
}

/// A warp dequantizes a record: lane (g, t) has eight columns of rows g and g + 8 of each chunk.
/// With two f16 for each weight, the remainders stand before the rounded weights.
template <typename Out, bool kHalves>
__global__ void __launch_bounds__(kThreads)
    UnpackKernel(const __grid_constant__ DeviceWeights w, Out* rows) {
  const int64_t record_index = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (record_index >= static_cast<int64_t>(w.strips) * w.steps) return;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int64_t strip = record_index / w.steps;
  const int step = static_cast<int>(record_index % w.steps);
  const unsigned char* record =
      static_cast<const unsigned char*>(w.data) + record_index * RecordBytes(w);
  const unsigned char* scales = record + WeightBytes(w.format);
  const bool four = w.format == DeviceFormat::kInt4;
  const float per_unit = kHalves ? 1.0f / w.unit : 1.0f;
  const int64_t row_elements = w.row_elements * (kHalves ? 2 : 1);
#pragma unroll
  for (int c = 0; c < kChunksPerStep; ++c) {
    const uint4 words =
        *reinterpret_cast<const uint4*>(record + (four ? lane : c * 32 + lane) * 16);
    const uint32_t all[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int row = g + upper * 8;
      const int place = ScalePlace(w, row, c);
      const float scale = ScaleAt(scales, place, w.f32_scales);
      const float minimum =
          w.has_minimum ? ScaleAt(scales + ScaleBytes(w), place, w.f32_scales) : 0.0f;
      Out out[8], rest[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        int q;
        if (four) {
          q = static_cast<int>(all[c * 2 + upper] >> ((k / 2) * 4 + (k % 2) * 16) & 15) -
              (w.zero_based ? 0 : 8);
        } else {
          q = static_cast<int>(all[upper * 2 + k / 4] >> (k % 4 * 8) & 255) - 128;
        }
        const float value = fmaf(scale, static_cast<float>(q), minimum) * per_unit;
        Narrow(out[k], value);
        if constexpr (kHalves) Narrow(rest[k], value - Widen(out[k]));
      }
      Out* to = rows + (strip * kStripRows + row) * row_elements + step * kStepColumns +
                c * kChunkColumns + t * 8;
      if constexpr (kHalves) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(rest);
        to += w.row_elements;
      }
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(out);
    }
  }
}

/// Reduces the values of all threads of a thread block.
template <typename Combine>
__device__ __forceinline__ float OfBlock(float value, Combine combine) {
  __shared__ float parts[kThreads / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(~0u, value, offset));
  }
  __syncthreads();  // whoever used it before has read it
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int i = 1; i < kThreads / 32; ++i) value = combine(value, parts[i]);
  return value;
}

/// The power of two in whose units the largest number of a row lies between 2^14 and 2^15, below
/// f16's end of 65504; 1 for rows of zeros and for what is not finite.
__device__ __forceinline__ float UnitFor(float largest) {
  if (!(largest > 0 && largest < INFINITY)) return 1.0f;
  return exp2f(fmaxf(static_cast<float>(ilogbf(largest)) - 14.0f, -126.0f));
}

/// A thread block casts a row.
template <typename Out>
__global__ void __launch_bounds__(kThreads)
    CastKernel(const __grid_constant__ RowCast cast, Out* out, float* factors) {
  const int columns = static_cast<int>(cast.columns), padded = static_cast<int>(cast.padded);
  const float* row = cast.x + static_cast<int64_t>(blockIdx.x) * columns;
  const float* gain = cast.gain;
  float factor = 1.0f;
  if (gain != nullptr) {
    float square = 0;
    for (int i = threadIdx.x; i < columns; i += kThreads) square = fmaf(row[i], row[i], square);
    square = OfBlock(square, [](float a, float b) { return a + b; });
    factor = rsqrtf(square / static_cast<float>(columns) + cast.epsilon);
  }
  if (factors != nullptr) {
    float largest = 0;
    for (int i = threadIdx.x; i < columns; i += kThreads) {
      largest = fmaxf(largest, fabsf(row[i] * factor * (gain != nullptr ? gain[i] : 1.0f)));
    }
    const float unit = UnitFor(OfBlock(largest, [](float a, float b) { return fmaxf(a, b); }));
    if (threadIdx.x == 0) factors[blockIdx.x] = unit;
    factor /= unit;
  }
  Out* to = out + static_cast<int64_t>(blockIdx.x) * padded * (cast.in_halves ? 2 : 1);
  for (int i = threadIdx.x; i < padded; i += kThreads) {
    float v = 0;
    if (i < columns) v = row[i] * factor * (gain != nullptr ? gain[i] : 1.0f);
    Narrow(to[i], v);
    if (cast.in_halves) Narrow(to[padded + i], v - Widen(to[i]));
  }
}

/// The result of a row and a column, before the activation.
__device__ __forceinline__ float SumAt(const RowSums& s, int64_t row, int64_t column) {
  const int64_t at = row * s.width + column;
  float v = s.sums[at];
  for (int split = 1; split < s.splits; ++split) v += s.sums[split * s.rows * s.width + at];
  if (s.factors != nullptr) v *= s.factors[row];
  if (s.bias != nullptr) v += s.bias[column];
  return v;
}

__global__ void __launch_bounds__(kThreads)
    FinishKernel(const __grid_constant__ RowSums s, const float* addend, float* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.rows * s.width) return;
  const int64_t row = i / s.width;
  float v = SumAt(s, row, i - row * s.width);
  if (addend != nullptr) v += addend[i];
  y[i] = Activate(s.activation, v);
}

__global__ void __launch_bounds__(kThreads)
    GateKernel(const __grid_constant__ RowSums s, int64_t columns, float* y) {
  const int64_t row = blockIdx.y;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= columns) return;
  const int64_t at = i / 8 * 16 + i % 8;
  y[row * columns + i] = Activate(s.activation, SumAt(s, row, at)) * SumAt(s, row, at + 8);
}

__global__ void __launch_bounds__(kThreads)
    GatherKernel(const __grid_constant__ DeviceWeights w, int64_t table_rows,
                 const int32_t* indices, int columns, float factor, float* out) {
  LaunchDependents();
  WaitForPredecessor();
  const int32_t row = indices[blockIdx.y];
  const bool known = row >= 0 && row < table_rows;
  const int column = static_cast<int>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= columns) return;
  const float value = known ? WeightAt(w, row, column) * factor : nanf("");
  out[static_cast<int64_t>(blockIdx.y) * columns + column] = value;
}

}  // namespace

namespace {

template <typename Out, bool kHalves>
void Unpack(const Stream& stream, const DeviceWeights& weights, void* rows) {
  const int64_t records = static_cast<int64_t>(weights.strips) * weights.steps;
  const Grid grid{dim3(BlocksFor(records * 32, kThreads)), dim3(kThreads)};
  Launch(stream, grid, UnpackKernel<Out, kHalves>, weights, static_cast<Out*>(rows));
}

}  // namespace

void UnpackWeights(const Stream& stream, const DeviceWeights& weights, void* rows) {
  if (MultipliesF16(weights)) {
    Unpack<__half, false>(stream, weights, rows);
  } else {
    Unpack<__nv_bfloat16, false>(stream, weights, rows);
  }
}

void UnpackInHalves(const Stream& stream, const DeviceWeights& weights, void* rows) {
  Unpack<__half, true>(stream, weights, rows);
}

void CastRows(const Stream& stream, const RowCast& cast, void* out, float* factors) {
  const Grid grid{dim3(static_cast<unsigned>(cast.rows)), dim3(kThreads)};
  if (cast.half) {
    Launch(stream, grid, CastKernel<__half>, cast, static_cast<__half*>(out), factors);
  } else {
    Launch(stream, grid, CastKernel<__nv_bfloat16>, cast, static_cast<__nv_bfloat16*>(out),
           factors);
  }
}

void FinishRows(const Stream& stream, const RowSums& sums, const float* addend, float* y) {
  const Grid grid{dim3(BlocksFor(sums.rows * sums.width, kThreads)), dim3(kThreads)};
  Launch(stream, grid, FinishKernel, sums, addend, y);
}

void GateRows(const Stream& stream, const RowSums& both, int64_t columns, float* y) {
  const Grid grid{dim3(BlocksFor(columns, kThreads), static_cast<unsigned>(both.rows)),
                  dim3(kThreads)};
  Launch(stream, grid, GateKernel, both, columns, y);
}

void GatherRows(const Stream& stream, const DeviceWeights& weights, int64_t table_rows,
                const int32_t* indices, int64_t count, int64_t columns, float factor, float* out) {
  const Grid grid{dim3(BlocksFor(columns, kThreads), static_cast<unsigned>(count)), dim3(kThreads),
                  0, true};
  Launch(stream, grid, GatherKernel, weights, table_rows, indices, static_cast<int>(columns),
         factor, out);
}

}  // namespace oort::cuda
