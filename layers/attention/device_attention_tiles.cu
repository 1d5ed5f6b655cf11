// SPDX-License-Identifier: MIT
// Attention on tensor cores, in the manner of FlashAttention-2 (Dao 2023): a thread block computes
// 64 queries of one matrix, a warp 16 of them, and walks over the keys in tiles of 64. Scores stay
// in registers and become weights there by an online softmax, while the keys and values of the next
// tile are loaded.
#include "layers/attention/device_attention_tiles.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <type_traits>

#include "cuda/elements.h"
#include "cuda/epilogue.cuh"
#include "cuda/kernel_launch.h"
#include "layers/attention/attention_tiles.h"

namespace oort {
namespace {

using namespace cuda::attention_tiles;

constexpr int kTileWarps = 4;
constexpr int kTileThreads = kTileWarps * 32;
constexpr int kTileQueries = kTileWarps * 16;
constexpr int kTileKeys = 64;
constexpr int64_t kWidestTile = 128;
constexpr int64_t kPiece = 8;  // elements of 16 bits that are copied at once

/// Where matrices begin: their number has three digits, and each digit moves by a step of its own.
struct MatrixSteps {
  int64_t outer = 0, middle = 0, inner = 0;
};

template <typename T>
struct TileProblem {
  const T *q, *k, *v, *numbers;
  const uint8_t* flags;
  T* output;
  int tiles;  // of queries
  int queries, keys, dim, value_dim;
  int middle, inner;  // what the last two digits of a matrix's number count to
  MatrixSteps q_at, k_at, v_at, output_at, mask_at;
  int64_t q_row, k_row, v_row, output_row, mask_row, mask_column;
  float scale;
  bool causal, zero_if_masked;

  __device__ __forceinline__ int64_t At(const MatrixSteps& steps, int matrix) const {
    const int rest = matrix / inner;
    return rest / middle * steps.outer + rest % middle * steps.middle +
           matrix % inner * steps.inner;
  }
};

/// Begins to bring a tile of keys or values to shared memory. What is behind the last row or the
/// last column becomes zeros.
template <int kDim, typename T>
__device__ __forceinline__ void FetchTile(const T* from, int64_t row_step, int first, int rows,
                                          int columns, uint32_t to) {
  constexpr int kPieces = kDim / kPiece;
#pragma unroll
  for (int i = 0; i < kTileKeys * kPieces / kTileThreads; ++i) {
    const int index = i * kTileThreads + static_cast<int>(threadIdx.x);
    const int row = index / kPieces, column = index % kPieces * static_cast<int>(kPiece);
    const bool valid = first + row < rows && column < columns;
    const T* const piece = valid ? from + (first + row) * row_step + column : from;
    cuda::CopyOrZero<16, false>(to + PieceAt<kDim>(row, index % kPieces), piece, valid);
  }
}

/// 16 queries from number `first` on, as fragments; zeros behind the last one and the last column.
template <int kDim, typename T>
__device__ __forceinline__ void FetchQueries(const TileProblem<T>& p, const T* from, int first,
                                             uint32_t (&queries)[kDim / 16][4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first + g + half * 8;
    const T* const row = from + query * p.q_row;
#pragma unroll
    for (int k = 0; k < kDim / 8; ++k) {
      const int column = k * 8 + 2 * t;
      const bool valid = query < p.queries && column < p.dim;
      queries[k / 2][k % 2 * 2 + half] =
          valid ? *reinterpret_cast<const uint32_t*>(row + column) : 0;
    }
  }
}

/// Changes each score by the element of a mask that belongs to it. `mask` is where that of the
/// matrix begins; a column step is 0 or 1, so that addresses differ by constants.
template <typename T, typename M, typename Change>
__device__ __forceinline__ void ChangeScores(const TileProblem<T>& p, const M* mask,
                                             int first_query, int first_key,
                                             float (&scores)[kTileKeys / 8][4],
                                             const Change& change) {
  const int lane = threadIdx.x % 32, g = lane / 4, first = first_key + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first_query + g + half * 8;
    if (query >= p.queries) continue;
    const M* const row = mask + query * p.mask_row;
    if (p.mask_column == 0) {
      const M element = *row;
#pragma unroll
      for (int n = 0; n < kTileKeys / 8; ++n) {
        change(scores[n][2 * half], element);
        change(scores[n][2 * half + 1], element);
      }
      continue;
    }
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (first + n * 8 + i < p.keys) change(scores[n][2 * half + i], row[first + n * 8 + i]);
      }
    }
  }
}

/// Scales scores, adds the mask, and hides what a query does not see.
template <typename T>
__device__ __forceinline__ void MaskScores(const TileProblem<T>& p, int64_t mask_at,
                                           int first_query, int first_key,
                                           float (&scores)[kTileKeys / 8][4]) {
#pragma unroll
  for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] *= p.scale;
  }
  if (p.numbers != nullptr) {
    ChangeScores(p, p.numbers + mask_at, first_query, first_key, scores,
                 [](float& score, T number) { score += cuda::ToFloat(number); });
  } else if (p.flags != nullptr) {
    ChangeScores(p, p.flags + mask_at, first_query, first_key, scores,
                 [](float& score, uint8_t flag) { score = flag != 0 ? score : -INFINITY; });
  }
  const int lane = threadIdx.x % 32, query = first_query + lane / 4;
  if (!p.causal && first_key + kTileKeys <= p.keys) return;
#pragma unroll
  for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first_key + n * 8 + lane % 4 * 2 + i % 2;
      const bool seen = key < p.keys && (!p.causal || key <= query + i / 2 * 8);
      if (!seen) scores[n][i] = -INFINITY;
    }
  }
}

/// Grid: tiles of queries, those of a matrix side by side.
template <typename T, int kDim>
__global__ void __launch_bounds__(kTileThreads, kDim <= 64 ? 4 : 2)
    AttentionTilesKernel(const __grid_constant__ TileProblem<T> p) {
  extern __shared__ __align__(128) unsigned char attention_tiles_shared[];
  constexpr bool kBf16 = std::is_same_v<T, __nv_bfloat16>;
  constexpr uint32_t kTileBytes = kTileKeys * kDim * 2;
  const uint32_t base = cuda::SharedAddress(attention_tiles_shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int matrix = static_cast<int>(blockIdx.x) / p.tiles;
  const int block_query = static_cast<int>(blockIdx.x) % p.tiles * kTileQueries;
  const int first_query = block_query + warp * 16;
  const T* const keys = p.k + p.At(p.k_at, matrix);
  const T* const values = p.v + p.At(p.v_at, matrix);
  const int last = p.causal ? min(p.keys, block_query + kTileQueries) : p.keys;
  const int tiles = (last + kTileKeys - 1) / kTileKeys;
  cuda::LaunchDependents();
  cuda::WaitForPredecessor();

  const auto fetch = [&](int tile) {
    const uint32_t to = base + static_cast<uint32_t>(tile % 2) * 2 * kTileBytes;
    FetchTile<kDim>(keys, p.k_row, tile * kTileKeys, p.keys, p.dim, to);
    FetchTile<kDim>(values, p.v_row, tile * kTileKeys, p.keys, p.value_dim, to + kTileBytes);
    cuda::CommitCopies();
  };
  if (tiles > 0) fetch(0);
  uint32_t queries[kDim / 16][4];
  FetchQueries<kDim>(p, p.q + p.At(p.q_at, matrix), first_query, queries);
  const int64_t mask_at = p.At(p.mask_at, matrix);
  RunningRows<kDim> rows;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      fetch(tile + 1);
      cuda::WaitForCopies<1>();
    } else {
      cuda::WaitForCopies<0>();
    }
    __syncthreads();
    if (first_query < p.queries) {  // the same for the whole warp
      const uint32_t tile_keys = base + static_cast<uint32_t>(tile % 2) * 2 * kTileBytes;
      float scores[kTileKeys / 8][4];
      Score<kBf16, kDim, kTileKeys>(queries, tile_keys, scores);
      MaskScores(p, mask_at, first_query, tile * kTileKeys, scores);
      TurnIntoWeights<kDim, kTileKeys>(scores, rows);
      AddValues<kBf16, kDim, kTileKeys>(scores, tile_keys + kTileBytes, rows);
    }
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float weight = WholeWeight(rows.weight[half]);
    const int query = first_query + g + half * 8;
    if (query >= p.queries) continue;
    // What sees no key has no weight: without zeros 0/0 is the NaN of a plain softmax.
    const bool zeros = weight == 0 && p.zero_if_masked;
    const float share = 1.0f / weight;
    T* const out = p.output + p.At(p.output_at, matrix) + query * p.output_row;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int column = n * 8 + 2 * t;
      if (column >= p.value_dim) continue;
      const uint32_t pair =
          PackPair<kBf16>(rows.sums[n][2 * half] * share, rows.sums[n][2 * half + 1] * share);
      *reinterpret_cast<uint32_t*>(out + column) = zeros ? 0 : pair;
    }
  }
}

/// How many offsets from the first on lie at one distance from each other.
int64_t RegularRun(const ScratchVector<int64_t>& offsets) {
  size_t run = 1;
  while (run < offsets.size() && offsets[run] - offsets[run - 1] == offsets[1] - offsets[0]) ++run;
  return static_cast<int64_t>(run);
}

ScratchVector<int64_t> EveryNth(const ScratchVector<int64_t>& offsets, int64_t n) {
  ScratchVector<int64_t> chosen;
  for (size_t i = 0; i < offsets.size(); i += static_cast<size_t>(n)) chosen.push_back(offsets[i]);
  return chosen;
}

/// What the digits of a matrix's number count to, so that each operand may have steps.
struct MatrixDigits {
  int64_t outer = 1, middle = 1, inner = 1;

  template <typename... Offsets>
  static MatrixDigits Of(int64_t count, const Offsets&... offsets) {
    MatrixDigits digits;
    digits.inner = count;
    ((digits.inner = offsets.empty() ? digits.inner : std::gcd(digits.inner, RegularRun(offsets))),
     ...);
    digits.middle = count / digits.inner;
    ((digits.middle = offsets.empty()
                          ? digits.middle
                          : std::gcd(digits.middle, RegularRun(EveryNth(offsets, digits.inner)))),
     ...);
    digits.outer = count / digits.inner / digits.middle;
    return digits;
  }

  /// The steps of an operand, if it has such.
  std::optional<MatrixSteps> Steps(const ScratchVector<int64_t>& offsets) const {
    MatrixSteps steps;
    if (offsets.empty()) return steps;
    const auto at = [&](int64_t matrix) { return offsets[static_cast<size_t>(matrix)]; };
    if (offsets[0] != 0) return {};
    if (inner > 1) steps.inner = at(1);
    if (middle > 1) steps.middle = at(inner);
    if (outer > 1) steps.outer = at(inner * middle);
    for (int64_t i = 0; i < static_cast<int64_t>(offsets.size()); ++i) {
      const int64_t rest = i / inner;
      if (at(i) !=
          rest / middle * steps.outer + rest % middle * steps.middle + i % inner * steps.inner) {
        return {};
      }
    }
    return steps;
  }
};

bool IsAligned(const void* data, int64_t row, const MatrixSteps& steps) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && row % kPiece == 0 &&
         steps.outer % kPiece == 0 && steps.middle % kPiece == 0 && steps.inner % kPiece == 0;
}

/// Sizes and places of a problem; none where it is too wide or not regular.
template <typename T, typename Element = typename cuda::ElementOf<T>::Type>
std::optional<TileProblem<Element>> RegularProblem(const AttentionProblem<T>& problem) {
  const int64_t tiles = (problem.queries + kTileQueries - 1) / kTileQueries;
  const AttentionMask<T>* const mask = problem.masks.empty() ? nullptr : &problem.masks[0];
  if (mask != nullptr && mask->column != 0 && mask->column != 1) return {};
  if (problem.dim % kPiece != 0 || problem.value_dim % kPiece != 0 ||
      std::max(problem.dim, problem.value_dim) > kWidestTile || problem.count == 0 ||
      problem.queries > INT32_MAX / 2 || problem.keys > INT32_MAX / 2 ||
      problem.count > INT32_MAX / std::max<int64_t>(tiles, 1)) {
    return {};
  }
  static const ScratchVector<int64_t> none;
  const ScratchVector<int64_t>& mask_offsets = mask == nullptr ? none : mask->offsets;
  const MatrixDigits digits =
      MatrixDigits::Of(problem.count, problem.q.offsets, problem.k.offsets, problem.v.offsets,
                       problem.output_offsets, mask_offsets);
  const std::optional<MatrixSteps> q = digits.Steps(problem.q.offsets),
                                   k = digits.Steps(problem.k.offsets),
                                   v = digits.Steps(problem.v.offsets),
                                   output = digits.Steps(problem.output_offsets),
                                   masks = digits.Steps(mask_offsets);
  const bool fits = q && k && v && output && masks &&
                    IsAligned(problem.q.data, problem.q.row, *q) &&
                    IsAligned(problem.k.data, problem.k.row, *k) &&
                    IsAligned(problem.v.data, problem.v.row, *v) &&
                    IsAligned(problem.output, problem.output_row, *output);
  if (!fits) return {};
  const auto on_device = [](const T* data) { return reinterpret_cast<const Element*>(data); };
  TileProblem<Element> p{};
  p.q = on_device(problem.q.data);
  p.k = on_device(problem.k.data);
  p.v = on_device(problem.v.data);
  p.output = reinterpret_cast<Element*>(problem.output);
  p.tiles = static_cast<int>(tiles);
  p.queries = static_cast<int>(problem.queries);
  p.keys = static_cast<int>(problem.keys);
  p.dim = static_cast<int>(problem.dim);
  p.value_dim = static_cast<int>(problem.value_dim);
  p.middle = static_cast<int>(digits.middle);
  p.inner = static_cast<int>(digits.inner);
  p.q_at = *q;
  p.k_at = *k;
  p.v_at = *v;
  p.output_at = *output;
  p.mask_at = *masks;
  p.q_row = problem.q.row;
  p.k_row = problem.k.row;
  p.v_row = problem.v.row;
  p.output_row = problem.output_row;
  if (mask != nullptr) {
    p.numbers = on_device(mask->numbers);
    p.flags = mask->flags;
    p.mask_row = mask->row;
    p.mask_column = mask->column;
  }
  p.scale = problem.scale;
  p.causal = problem.causal;
  p.zero_if_masked = problem.zero_if_masked;
  return p;
}

template <int kDim, typename T>
void LaunchTiles(cuda::Stream& stream, const TileProblem<T>& problem, int64_t matrices) {
  cuda::KernelLaunch launch;
  launch.kernel = reinterpret_cast<const void*>(&AttentionTilesKernel<T, kDim>);
  launch.blocks = dim3(static_cast<unsigned>(problem.tiles * matrices));
  launch.threads = kTileThreads;
  // The second pair of tiles is for what is loaded ahead.
  launch.shared = size_t{problem.keys > kTileKeys ? 4U : 2U} * kTileKeys * kDim * 2;
  launch.overlap = true;
  cuda::Launch(stream, launch, &problem);
}

template <typename T>
bool RunTiles(cuda::Stream& stream, const AttentionProblem<T>& problem) {
  const auto regular = RegularProblem(problem);
  if (!regular) return false;
  const int64_t width = std::max(problem.dim, problem.value_dim), count = problem.count;
  if (width <= 32) {
    LaunchTiles<32>(stream, *regular, count);
  } else if (width <= 64) {
    LaunchTiles<64>(stream, *regular, count);
  } else if (width <= 80) {
    LaunchTiles<80>(stream, *regular, count);
  } else if (width <= 96) {
    LaunchTiles<96>(stream, *regular, count);
  } else {
    LaunchTiles<kWidestTile>(stream, *regular, count);
  }
  return true;
}

}  // namespace

bool AttentionByTiles(cuda::Stream& stream, const AttentionProblem<Half>& problem) {
  return RunTiles(stream, problem);
}
bool AttentionByTiles(cuda::Stream& stream, const AttentionProblem<BFloat16>& problem) {
  return RunTiles(stream, problem);
}

}  // namespace oort
