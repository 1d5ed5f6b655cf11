// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/dequantize.h"

#include <algorithm>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "cuda/elements.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/attention/paged/cuda/fp8.h"
#include "layers/quantized_linear/byte_rows.h"
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

/// A warp has a record: its weights are bytes that count from -128.
__global__ void __launch_bounds__(kThreads)
    UnpackBytesKernel(const __grid_constant__ DeviceWeights w, uint8_t* rows) {
  LaunchDependents();
  const int64_t record_index = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (record_index >= static_cast<int64_t>(w.strips) * w.steps) return;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int64_t strip = record_index / w.steps;
  const int step = static_cast<int>(record_index % w.steps);
  const unsigned char* record =
      static_cast<const unsigned char*>(w.data) + record_index * RecordBytes(w);
  uint4 words[kChunksPerStep];
#pragma unroll
  for (int c = 0; c < kChunksPerStep; ++c) {
    words[c] = *reinterpret_cast<const uint4*>(record + (c * 32 + lane) * 16);
  }
  WaitForPredecessor();  // which may still read what is written here
  constexpr uint32_t kSigns = 0x80808080u;
#pragma unroll
  for (int c = 0; c < kChunksPerStep; ++c) {
    uint8_t* const to = rows + (strip * kStripRows + g) * w.row_elements + step * kStepColumns +
                        c * kChunkColumns + t * 8;
    *reinterpret_cast<uint2*>(to) = make_uint2(words[c].x ^ kSigns, words[c].y ^ kSigns);
    *reinterpret_cast<uint2*>(to + 8 * w.row_elements) =
        make_uint2(words[c].z ^ kSigns, words[c].w ^ kSigns);
  }
}

/// Reduces the values of all threads of a thread block.
template <int kBlock, typename Combine>
__device__ __forceinline__ float OfBlock(float value, Combine combine) {
  __shared__ float parts[kBlock / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(~0u, value, offset));
  }
  __syncthreads();  // whoever used it before has read it
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
#pragma unroll
  for (int i = 1; i < kBlock / 32; ++i) value = combine(value, parts[i]);
  return value;
}

/// The power of two in whose units the largest number of a row lies between 2^14 and 2^15, below
/// f16's end of 65504; 1 for rows of zeros and for what is not finite.
__device__ __forceinline__ float UnitFor(float largest) {
  if (!(largest > 0 && largest < INFINITY)) return 1.0f;
  return exp2f(fmaxf(static_cast<float>(ilogbf(largest)) - 14.0f, -126.0f));
}

__device__ __forceinline__ float4 Times(float4 v, float factor, const float* gain, int i) {
  v.x *= factor, v.y *= factor, v.z *= factor, v.w *= factor;
  if (gain == nullptr) return v;
  const float4 g = *reinterpret_cast<const float4*>(gain + i);
  return make_float4(v.x * g.x, v.y * g.y, v.z * g.z, v.w * g.w);
}

/// Numbers i … i + 3 of a row; zeros behind its end.
__device__ __forceinline__ float4 FourOf(const float* row, int i, int columns, bool whole) {
  if (whole && i < columns) return *reinterpret_cast<const float4*>(row + i);
  float v[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = i + k < columns ? row[i + k] : 0.0f;
  return make_float4(v[0], v[1], v[2], v[3]);
}

template <typename Out>
__device__ __forceinline__ void NarrowFour(Out* to, float4 v, float4* rest) {
  alignas(8) Out out[4];
  Narrow(out[0], v.x), Narrow(out[1], v.y), Narrow(out[2], v.z), Narrow(out[3], v.w);
  *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(out);
  *rest = make_float4(v.x - Widen(out[0]), v.y - Widen(out[1]), v.z - Widen(out[2]),
                      v.w - Widen(out[3]));
}

/// The same in the order of unpacked tiles, for columns i … i + 3 of a row.
template <typename Out>
__device__ __forceinline__ void NarrowForTiles(Out* row, int i, float4 v) {
  alignas(8) Out out[4];
  Narrow(out[0], v.x), Narrow(out[1], v.y), Narrow(out[2], v.z), Narrow(out[3], v.w);
  const uint2 both = *reinterpret_cast<const uint2*>(out);
  Out* const to =
      row + i / kChunkColumns * kChunkColumns + i / 4 % 2 * 16 + i % kChunkColumns / 8 * 2;
  *reinterpret_cast<uint32_t*>(to) = both.x;
  *reinterpret_cast<uint32_t*>(to + 8) = both.y;
}

/// The same as i8 or e4m3.
__device__ __forceinline__ void NarrowToBytes(int8_t* to, float4 v) {
  const auto byte = [](float value) {
    return static_cast<uint32_t>(__float2int_rn(fminf(fmaxf(value, -127.0f), 127.0f))) & 0xff;
  };
  *reinterpret_cast<uint32_t*>(to) = byte(v.x) | byte(v.y) << 8 | byte(v.z) << 16 | byte(v.w) << 24;
}
__device__ __forceinline__ void NarrowToBytes(Fp8* to, float4 v) {
  *reinterpret_cast<uint32_t*>(to) = Fp8Four(v.x, v.y, v.z, v.w);
}

/// In what units a row comes.
template <typename Out>
__device__ __forceinline__ float RowUnit(float largest) {
  if constexpr (sizeof(Out) != 1) return UnitFor(largest);
  return ByteUnit(std::is_same_v<Out, Fp8> ? ByteKind::kFp8 : ByteKind::kInt8, largest);
}
/// NaN where one of them is.
__device__ __forceinline__ float LargerOf(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

/// A thread block casts a row; where nothing is summed up over the row, several share it.
template <typename Out, int kBlock>
__global__ void __launch_bounds__(kBlock)
    CastKernel(const __grid_constant__ RowCast cast, Out* out, float* factors) {
  LaunchDependents();
  WaitForPredecessor();
  const int columns = static_cast<int>(cast.columns), padded = static_cast<int>(cast.padded);
  const bool whole = columns % 4 == 0 && reinterpret_cast<uintptr_t>(cast.x) % 16 == 0;
  const float* row = cast.x + static_cast<int64_t>(blockIdx.x) * columns;
  const float* gain = cast.gain;
  const auto at = [&](int i) { return FourOf(row, i, columns, whole); };
  const auto gained = [&](int i, float factor) {
    if (whole) return Times(at(i), factor, i < columns ? gain : nullptr, i);
    float4 v = Times(at(i), factor, nullptr, 0);
    if (gain == nullptr) return v;
    const float4 g = FourOf(gain, i, columns, false);
    return make_float4(v.x * g.x, v.y * g.y, v.z * g.z, v.w * g.w);
  };
  float factor = 1.0f;
  if (gain != nullptr) {
    float square = 0;
    for (int i = threadIdx.x * 4; i < columns; i += kBlock * 4) {
      const float4 v = at(i);
      square = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, fmaf(v.w, v.w, square))));
    }
    square = OfBlock<kBlock>(square, [](float a, float b) { return a + b; });
    factor = rsqrtf(square / static_cast<float>(columns) + cast.epsilon);
  }
  if (factors != nullptr) {
    float largest = 0;
    for (int i = threadIdx.x * 4; i < columns; i += kBlock * 4) {
      const float4 v = gained(i, factor);
      largest = LargerOf(LargerOf(largest, LargerOf(fabsf(v.x), fabsf(v.y))),
                         LargerOf(fabsf(v.z), fabsf(v.w)));
    }
    const float unit = RowUnit<Out>(OfBlock<kBlock>(largest, LargerOf));
    if (threadIdx.x == 0) factors[blockIdx.x] = unit;
    factor /= unit;
  }
  Out* to = out + static_cast<int64_t>(blockIdx.x) * padded * (cast.in_halves ? 2 : 1);
  const int stride = static_cast<int>(gridDim.y) * kBlock * 4;
  for (int i = (blockIdx.y * kBlock + threadIdx.x) * 4; i < padded; i += stride) {  // whole steps
    if constexpr (sizeof(Out) == 1) {
      NarrowToBytes(to + i, gained(i, factor));
    } else if (cast.for_tiles) {
      NarrowForTiles(to, i, gained(i, factor));
    } else {
      float4 rest, none;
      NarrowFour(to + i, gained(i, factor), &rest);
      if (cast.in_halves) NarrowFour(to + padded + i, rest, &none);
    }
  }
}

/// Numbers that a thread has at once: four of them are one access.
template <int kCount>
struct Numbers {
  float v[kCount];
};
template <int kCount>
__device__ __forceinline__ Numbers<kCount> Load(const float* from) {
  Numbers<kCount> n;
  if constexpr (kCount == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    n.v[0] = four.x, n.v[1] = four.y, n.v[2] = four.z, n.v[3] = four.w;
  } else {
    for (int i = 0; i < kCount; ++i) n.v[i] = from[i];
  }
  return n;
}
template <int kCount>
__device__ __forceinline__ void Store(float* to, const Numbers<kCount>& n) {
  if constexpr (kCount == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(n.v[0], n.v[1], n.v[2], n.v[3]);
  } else {
    for (int i = 0; i < kCount; ++i) to[i] = n.v[i];
  }
}

/// Results of a row from a column on, before the activation.
template <int kCount>
__device__ __forceinline__ Numbers<kCount> SumAt(const RowSums& s, int64_t row, int64_t column) {
  const int64_t at = row * s.width + column;
  Numbers<kCount> n = Load<kCount>(s.sums + at);
  for (int split = 1; split < s.splits; ++split) {
    const Numbers<kCount> more = Load<kCount>(s.sums + split * s.rows * s.width + at);
    for (int i = 0; i < kCount; ++i) n.v[i] += more.v[i];
  }
  if (s.whole) {
    for (int i = 0; i < kCount; ++i) n.v[i] = __int2float_rn(__float_as_int(n.v[i]));
  }
  if (s.factors != nullptr) {
    for (int i = 0; i < kCount; ++i) n.v[i] *= s.factors[row];
  }
  if (s.scales != nullptr) {
    const Numbers<kCount> scales = Load<kCount>(s.scales + column);
    for (int i = 0; i < kCount; ++i) n.v[i] *= scales.v[i];
  }
  if (s.bias != nullptr) {
    const Numbers<kCount> bias = Load<kCount>(s.bias + column);
    for (int i = 0; i < kCount; ++i) n.v[i] += bias.v[i];
  }
  return n;
}

/// The column of a thread. The kernels below have threads for the columns of a row and loop over
/// rows.
template <int kCount>
__device__ __forceinline__ int64_t FirstColumn() {
  return (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kCount;
}

template <int kCount>
__global__ void __launch_bounds__(kThreads)
    FinishKernel(const __grid_constant__ RowSums s, const float* addend, float* y) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t column = FirstColumn<kCount>();
  if (column >= s.width) return;
  for (int64_t row = blockIdx.y; row < s.rows; row += gridDim.y) {
    Numbers<kCount> n = SumAt<kCount>(s, row, column);
    const int64_t at = row * s.width + column;
    if (addend != nullptr) {
      const Numbers<kCount> more = Load<kCount>(addend + at);
      for (int i = 0; i < kCount; ++i) n.v[i] += more.v[i];
    }
    for (int i = 0; i < kCount; ++i) n.v[i] = Activate(s.activation, n.v[i]);
    Store(y + at, n);
  }
}

template <int kCount>
__global__ void __launch_bounds__(kThreads)
    SplitKernel(const __grid_constant__ RowSums s, const __grid_constant__ RowParts parts) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t column = FirstColumn<kCount>();
  if (column >= s.width) return;
  for (int64_t row = blockIdx.y; row < s.rows; row += gridDim.y) {
    Numbers<kCount> n = SumAt<kCount>(s, row, column);
    if (parts.addend != nullptr && column < parts.width[0]) {
      const Numbers<kCount> more = Load<kCount>(parts.addend + row * parts.width[0] + column);
      for (int i = 0; i < kCount; ++i) n.v[i] += more.v[i];
    }
    for (int i = 0; i < kCount; ++i) n.v[i] = Activate(s.activation, n.v[i]);
    int64_t first = 0;
#pragma unroll
    for (int i = 0; i < kMostProducts; ++i) {
      const int64_t width = parts.width[i];
      if (i < parts.count && column >= first && column < first + width) {
        Store(parts.y[i] + row * width + column - first, n);
      }
      first += (width + kStripRows - 1) / kStripRows * kStripRows;
    }
  }
}

template <int kCount>
__global__ void __launch_bounds__(kThreads)
    GateKernel(const __grid_constant__ RowSums s, int64_t columns, float* y) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t column = FirstColumn<kCount>();
  if (column >= columns) return;
  const int64_t at = column / 8 * 16 + column % 8;
  for (int64_t row = blockIdx.y; row < s.rows; row += gridDim.y) {
    Numbers<kCount> gate = SumAt<kCount>(s, row, at);
    const Numbers<kCount> up = SumAt<kCount>(s, row, at + 8);
    for (int i = 0; i < kCount; ++i) gate.v[i] = Activate(s.activation, gate.v[i]) * up.v[i];
    Store(y + row * columns + column, gate);
  }
}

__global__ void __launch_bounds__(kThreads)
    GatherKernel(const __grid_constant__ DeviceWeights w, TablePart part, const int32_t* indices,
                 int columns, float factor, float* out) {
  LaunchDependents();
  WaitForPredecessor();
  const int32_t index = indices[blockIdx.y];
  const int64_t row = index - part.first;
  const bool known = index >= 0 && index < part.all, here = row >= 0 && row < part.rows;
  const int column = static_cast<int>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= columns) return;
  const float other = known ? 0.0f : nanf("");
  const float value = known && here ? WeightAt(w, row, column) * factor : other;
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

void UnpackBytes(const Stream& stream, const DeviceWeights& weights, void* rows) {
  const int64_t records = static_cast<int64_t>(weights.strips) * weights.steps;
  const Grid grid{dim3(BlocksFor(records * 32, kThreads)), dim3(kThreads), 0, true};
  LaunchBetween(stream, grid, UnpackBytesKernel, weights, static_cast<uint8_t*>(rows));
}

void UnpackInHalves(const Stream& stream, const DeviceWeights& weights, void* rows) {
  Unpack<__half, true>(stream, weights, rows);
}

namespace {

/// Whether all accesses may be of four numbers.
bool InFours(std::initializer_list<const void*> pointers, std::initializer_list<int64_t> widths) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }) &&
         std::all_of(widths.begin(), widths.end(), [](int64_t width) { return width % 4 == 0; });
}
Grid RowGrid(int64_t rows, int64_t columns, int count) {
  constexpr int64_t kMostRows = 65535;  // of blocks along y
  return {
      dim3(BlocksFor(columns, kThreads, count), static_cast<unsigned>(std::min(rows, kMostRows))),
      dim3(kThreads), 0, true};
}

}  // namespace

namespace {

template <typename Out>
void Cast(const Stream& stream, const RowCast& cast, void* out, float* factors) {
  const unsigned rows = static_cast<unsigned>(cast.rows);
  if (cast.gain != nullptr || factors != nullptr) {
    constexpr int kWide = 1024;  // a row of 4096 is one access of each thread
    LaunchBetween(stream, {dim3(rows), dim3(kWide), 0, true}, CastKernel<Out, kWide>, cast,
                  static_cast<Out*>(out), factors);
  } else {
    LaunchBetween(stream,
                  {dim3(rows, BlocksFor(cast.padded, kThreads, 4)), dim3(kThreads), 0, true},
                  CastKernel<Out, kThreads>, cast, static_cast<Out*>(out), factors);
  }
}

}  // namespace

void CastRows(const Stream& stream, const RowCast& cast, void* out, float* factors) {
  switch (cast.numbers) {
    case RowNumbers::kBf16: return Cast<__nv_bfloat16>(stream, cast, out, factors);
    case RowNumbers::kF16: return Cast<__half>(stream, cast, out, factors);
    case RowNumbers::kInt8: return Cast<int8_t>(stream, cast, out, factors);
    case RowNumbers::kFp8: break;
  }
  Cast<Fp8>(stream, cast, out, factors);
}

void FinishRows(const Stream& stream, const RowSums& sums, const float* addend, float* y) {
  if (InFours({sums.sums, sums.bias, addend, y}, {sums.width})) {
    LaunchBetween(stream, RowGrid(sums.rows, sums.width, 4), FinishKernel<4>, sums, addend, y);
  } else {
    LaunchBetween(stream, RowGrid(sums.rows, sums.width, 1), FinishKernel<1>, sums, addend, y);
  }
}

void SplitRows(const Stream& stream, const RowSums& sums, const RowParts& parts) {
  static_assert(kMostProducts == 3);
  if (InFours({sums.sums, sums.bias, parts.addend, parts.y[0], parts.y[1], parts.y[2]},
              {sums.width, parts.width[0], parts.width[1], parts.width[2]})) {
    LaunchBetween(stream, RowGrid(sums.rows, sums.width, 4), SplitKernel<4>, sums, parts);
  } else {
    LaunchBetween(stream, RowGrid(sums.rows, sums.width, 1), SplitKernel<1>, sums, parts);
  }
}

void GateRows(const Stream& stream, const RowSums& both, int64_t columns, float* y) {
  if (InFours({both.sums, both.bias, y}, {both.width, columns})) {
    LaunchBetween(stream, RowGrid(both.rows, columns, 4), GateKernel<4>, both, columns, y);
  } else {
    LaunchBetween(stream, RowGrid(both.rows, columns, 1), GateKernel<1>, both, columns, y);
  }
}

void GatherRows(const Stream& stream, const DeviceWeights& weights, const TablePart& part,
                const int32_t* indices, int64_t count, int64_t columns, float factor, float* out) {
  const Grid grid{dim3(BlocksFor(columns, kThreads), static_cast<unsigned>(count)), dim3(kThreads),
                  0, true};
  Launch(stream, grid, GatherKernel, weights, part, indices, static_cast<int>(columns), factor,
         out);
}

}  // namespace oort::cuda
