// SPDX-License-Identifier: MIT
// Attention that computes in f32, in the manner of FlashAttention (Dao et al. 2022): a thread block
// takes a few queries and walks over tiles of keys with an online softmax. For f32, and for what
// the tensor cores' kernel (device_attention_tiles.cu) does not take.
#include "layers/attention/device_attention.h"

#include <algorithm>

#include "cuda/elements.h"
#include "cuda/epilogue.cuh"
#include "cuda/launch.h"
#include "layers/attention/device_attention_tiles.h"

namespace oort {
namespace {

constexpr int kWarps = 4;
constexpr int kSharedKeys = 32;
/// About two for each multiprocessor of a large GPU: with fewer a block takes fewer queries.
constexpr int64_t kEnoughBlocks = 256;
constexpr int64_t kMatricesAtOnce = 256;

/// The addresses of the matrices are passed by value, because a recorded CUDA graph must not read
/// host memory.
template <typename T>
struct AttentionBatch {
  const T *q, *k, *v, *numbers;
  const uint8_t* flags;
  T* output;
  int queries, keys, dim, value_dim;
  int64_t q_row, k_row, v_row, output_row, mask_row, mask_column;
  float scale;
  bool causal, zero_if_masked;
  int64_t q_at[kMatricesAtOnce], k_at[kMatricesAtOnce], v_at[kMatricesAtOnce],
      output_at[kMatricesAtOnce], mask_at[kMatricesAtOnce];
};

__device__ float WarpMax(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = other > value || other != other ? other : value;
  }
  return value;
}

__device__ float WarpSum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

template <typename T>
__device__ float Masked(const AttentionBatch<T>& b, int matrix, int query, int key, float score) {
  const int64_t at = b.mask_at[matrix] + query * b.mask_row + key * b.mask_column;
  if (b.numbers != nullptr) return score + cuda::ToFloat(b.numbers[at]);
  if (b.flags != nullptr && b.flags[at] == 0) return -INFINITY;
  return score;
}

/// Rows of `columns` elements from `from`, `step` apart, as numbers in shared memory whose rows are
/// `pitch` apart; zeros behind the last of `rows`. Warps take turns. All loads of a lane's column
/// are under way at once.
template <int kRows, typename T>
__device__ void FetchRows(const T* from, int64_t step, int rows, int columns, float scale,
                          float* to, int pitch) {
  constexpr int kEach = kRows / kWarps;
  const int warp = threadIdx.x / 32;
  for (int i = threadIdx.x % 32; i < columns; i += 32) {
    float values[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int row = k * kWarps + warp;
      values[k] = row < rows ? cuda::ToFloat(from[row * step + i]) * scale : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) to[(k * kWarps + warp) * pitch + i] = values[k];
  }
}

/// Shared memory holds queries, then keys padded by one column (against bank conflicts), then
/// values. A lane has kLaneColumns columns of the values.
template <typename T, int kQueriesPerWarp, int kLaneColumns>
__global__ void __launch_bounds__(32 * kWarps)
    AttentionKernel(const __grid_constant__ AttentionBatch<T> b) {
  constexpr int kBlockQueries = kWarps * kQueriesPerWarp;
  extern __shared__ float attention_memory[];
  const int key_step = b.dim + 1;
  float* const queries = attention_memory;
  float* const keys = queries + kBlockQueries * b.dim;
  float* const values = keys + kSharedKeys * key_step;
  const int matrix = blockIdx.y, first = blockIdx.x * kBlockQueries;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  FetchRows<kBlockQueries>(b.q + b.q_at[matrix] + first * b.q_row, b.q_row, b.queries - first,
                           b.dim, b.scale, queries, b.dim);
  float most[kQueriesPerWarp], sum[kQueriesPerWarp], result[kQueriesPerWarp][kLaneColumns] = {};
#pragma unroll
  for (int i = 0; i < kQueriesPerWarp; ++i) {
    most[i] = -INFINITY;
    sum[i] = 0;
  }
  const int last = b.causal ? min(b.keys, first + kBlockQueries) : b.keys;
  for (int begin = 0; begin < last; begin += kSharedKeys) {
    __syncthreads();
    FetchRows<kSharedKeys>(b.k + b.k_at[matrix] + begin * b.k_row, b.k_row, b.keys - begin, b.dim,
                           1, keys, key_step);
    FetchRows<kSharedKeys>(b.v + b.v_at[matrix] + begin * b.v_row, b.v_row, b.keys - begin,
                           b.value_dim, 1, values, b.value_dim);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kQueriesPerWarp; ++i) {
      const int local = warp * kQueriesPerWarp + i, query = first + local, key = begin + lane;
      if (query >= b.queries) continue;  // the same for the whole warp
      float score = 0;
#pragma unroll 8
      for (int d = 0; d < b.dim; ++d) {
        score += queries[local * b.dim + d] * keys[lane * key_step + d];
      }
      const bool seen = key < b.keys && (!b.causal || key <= query);
      score = seen ? Masked(b, matrix, query, key, score) : -INFINITY;
      const float next = WarpMax(score);
      const float now = next > most[i] || next != next ? next : most[i];
      // A query that has not seen a key yet has no sums to rescale.
      const float keep = most[i] == -INFINITY ? 0.0f : expf(most[i] - now);
      const float weight = score == -INFINITY ? 0.0f : expf(score - now);
      most[i] = now;
      sum[i] = sum[i] * keep + WarpSum(weight);
#pragma unroll
      for (int c = 0; c < kLaneColumns; ++c) result[i][c] *= keep;
#pragma unroll 8
      for (int j = 0; j < kSharedKeys; ++j) {
        const float share = __shfl_sync(0xffffffffu, weight, j);
#pragma unroll
        for (int c = 0; c < kLaneColumns; ++c) {
          const int column = c * 32 + lane;
          if (column < b.value_dim) result[i][c] += share * values[j * b.value_dim + column];
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kQueriesPerWarp; ++i) {
    const int query = first + warp * kQueriesPerWarp + i;
    if (query >= b.queries) continue;
    const bool nothing = most[i] == -INFINITY;
    T* const out = b.output + b.output_at[matrix] + query * b.output_row;
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) {
      const int column = c * 32 + lane;
      if (column >= b.value_dim) continue;
      const float value = nothing ? (b.zero_if_masked ? 0.0f : NAN) : result[i][c] / sum[i];
      out[column] = cuda::FromFloat<T>(value);
    }
  }
}

void FillOffsets(const ScratchVector<int64_t>& from, int64_t first, int64_t count, int64_t* to) {
  if (from.empty()) return;
  std::copy_n(from.begin() + first, count, to);
}

template <int kQueriesPerWarp, int kLaneColumns, typename T>
void LaunchAttention(cuda::Stream& stream, const AttentionBatch<T>& batch, int64_t matrices) {
  constexpr int kBlockQueries = kWarps * kQueriesPerWarp;
  const size_t floats = static_cast<size_t>(kBlockQueries * batch.dim +
                                            kSharedKeys * (batch.dim + 1 + batch.value_dim));
  const dim3 blocks(cuda::BlocksFor(batch.queries, kBlockQueries), static_cast<unsigned>(matrices));
  cuda::Launch(stream, {blocks, dim3(32 * kWarps), floats * sizeof(float)},
               &AttentionKernel<T, kQueriesPerWarp, kLaneColumns>, batch);
}

template <int kQueriesPerWarp, typename T>
void LaunchForWidth(cuda::Stream& stream, const AttentionBatch<T>& batch, int64_t matrices) {
  if (batch.value_dim <= 64) return LaunchAttention<kQueriesPerWarp, 2>(stream, batch, matrices);
  if (batch.value_dim <= 128) return LaunchAttention<kQueriesPerWarp, 4>(stream, batch, matrices);
  constexpr int kMost = static_cast<int>(kDeviceAttentionWidth) / 32;
  LaunchAttention<kQueriesPerWarp, kMost>(stream, batch, matrices);
}

template <typename T>
void Run(cuda::Stream& stream, const AttentionProblem<T>& problem) {
  if (problem.count == 0 || problem.queries == 0 || problem.value_dim == 0) return;
  if (problem.queries > INT32_MAX || problem.keys > INT32_MAX) {
    throw Error(ErrorCode::kUnsupported, "sequences are too long for the GPU");
  }
  if constexpr (!std::is_same_v<T, float>) {
    if (AttentionByTiles(stream, problem)) return;
  }
  using Element = typename cuda::ElementOf<T>::Type;
  const auto on_device = [](const T* data) { return reinterpret_cast<const Element*>(data); };
  AttentionBatch<Element> batch{};
  batch.q = on_device(problem.q.data);
  batch.k = on_device(problem.k.data);
  batch.v = on_device(problem.v.data);
  batch.output = reinterpret_cast<Element*>(problem.output);
  batch.queries = static_cast<int>(problem.queries);
  batch.keys = static_cast<int>(problem.keys);
  batch.dim = static_cast<int>(problem.dim);
  batch.value_dim = static_cast<int>(problem.value_dim);
  batch.q_row = problem.q.row;
  batch.k_row = problem.k.row;
  batch.v_row = problem.v.row;
  batch.output_row = problem.output_row;
  batch.scale = problem.scale;
  batch.causal = problem.causal;
  batch.zero_if_masked = problem.zero_if_masked;
  const AttentionMask<T>* mask = problem.masks.empty() ? nullptr : &problem.masks[0];
  if (mask != nullptr) {
    batch.numbers = on_device(mask->numbers);
    batch.flags = mask->flags;
    batch.mask_row = mask->row;
    batch.mask_column = mask->column;
  }
  constexpr int kMany = 4;
  const int64_t large_blocks = (problem.queries + kWarps * kMany - 1) / (kWarps * kMany);
  for (int64_t first = 0; first < problem.count; first += kMatricesAtOnce) {
    const int64_t count = std::min(kMatricesAtOnce, problem.count - first);
    FillOffsets(problem.q.offsets, first, count, batch.q_at);
    FillOffsets(problem.k.offsets, first, count, batch.k_at);
    FillOffsets(problem.v.offsets, first, count, batch.v_at);
    FillOffsets(problem.output_offsets, first, count, batch.output_at);
    if (mask != nullptr) FillOffsets(mask->offsets, first, count, batch.mask_at);
    if (large_blocks * count >= kEnoughBlocks) {
      LaunchForWidth<kMany>(stream, batch, count);
    } else {
      LaunchForWidth<1>(stream, batch, count);
    }
  }
}

}  // namespace

void AttentionOnDevice(cuda::Stream& stream, const AttentionProblem<float>& problem) {
  Run(stream, problem);
}
void AttentionOnDevice(cuda::Stream& stream, const AttentionProblem<Half>& problem) {
  Run(stream, problem);
}
void AttentionOnDevice(cuda::Stream& stream, const AttentionProblem<BFloat16>& problem) {
  Run(stream, problem);
}

}  // namespace oort
