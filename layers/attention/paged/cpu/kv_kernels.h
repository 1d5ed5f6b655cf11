// SPDX-License-Identifier: MIT
// Attention over a paged KV cache (oort/kv_cache.h): keys and values lie in blocks, as in
// PagedAttention (Kwon et al. 2023).
#pragma once

#include "cpu/kernels.h"
#include "layers/attention/paged/cpu/k6v4_layout.h"
#include "oort/kv_cache.h"

namespace oort {

/// Rows that are computed together, because they share the keys and values of one head.
inline constexpr int kKvRows = 8;

struct KvBlock {
  const std::byte* keys;
  const std::byte* values;
};

/// Bytes of the keys of one head in a block, or of its values, with their scales.
[[gnu::always_inline]] constexpr int64_t KvSideBytes(KvType type, int64_t head_dim, bool values) {
  const int64_t elements = head_dim * KvCache::kBlockTokens;
  switch (type) {
    case KvType::kF32: return elements * 4;
    case KvType::kF16: return elements * 2;
    case KvType::kInt8: return elements + KvCache::kBlockTokens * 4;
    case KvType::kK6V4: {
      const K6V4Layout layout(head_dim);
      return values ? layout.value_bytes() : layout.key_bytes();
    }
    case KvType::kFp8: break;
  }
  return elements;
}

/// Rows of queries over the tokens [begin, end) of one sequence.
template <int most_rows>
struct KvQueries {
  KvType type = KvType::kF32;
  int64_t head_dim = 0;
  int rows = 0;
  const float* query[most_rows] = {};  ///< head_dim elements each
  float scale = 1;
  float softcap = 0;              ///< 0: none
  int64_t first[most_rows] = {};  ///< tokens that a row sees: [first, last]
  int64_t last[most_rows] = {};
  /// Of a row: what is added to the scores of tokens by how far away they are, the furthest first,
  /// which counts for those beyond it, too. Null: nothing; KvF16Kernels and KvTileKernels have
  /// none.
  const float* bias[most_rows] = {};
  int64_t distances = 0;
  int64_t begin = 0, end = 0;
  const KvBlock* blocks = nullptr;  ///< of the sequence, from token 0 on
  float* sums[most_rows] = {};      ///< of values, weighted: the result
  // The state of the online softmax: sums are weighted by exp(score - max), and `weight` is the sum
  // of these weights.
  float max[most_rows] = {};
  float weight[most_rows] = {};
};
using KvAttention = KvQueries<kKvRows>;

struct KvKernels {
  void (*attend)(KvAttention& attention);
};
OORT_DECLARE_KERNELS(KvKernels)

inline constexpr int kKvManyRows = 64;
/// Up to so many rows, as of a prompt. Their results have the bits that KvKernels gives.
struct KvManyRows : KvQueries<kKvManyRows> {
  static constexpr int64_t kPartTokens = 64;   ///< whose keys or values are f32 at a time
  static constexpr int64_t kStepTokens = 128;  ///< whose scores are
  float* scratch = nullptr;                    ///< ScratchFloats(head_dim)

  static int64_t ScratchFloats(int64_t head_dim) {
    return kPartTokens * head_dim + kKvManyRows * kStepTokens;
  }
  /// Whether the elements of a head fill whole vectors.
  static bool Takes(int64_t head_dim) { return head_dim % 16 == 0; }
  float* unpacked() const { return scratch; }
  float* scores(int row) const { return scratch + kPartTokens * head_dim + row * kStepTokens; }
};
struct KvManyRowsKernels {
  void (*attend)(KvManyRows& attention);
};
OORT_DECLARE_KERNELS(KvManyRowsKernels)

/// What KvKernels does, over keys and values in f16. Queries and weights are rounded to f16.
struct KvF16Kernels {
  /// Returns false and does nothing where f16 cannot hold the queries: another kernel is needed
  /// then.
  bool (*attend)(KvAttention& attention);
};
/// Null where the processor has no such products.
const KvF16Kernels* KvF16KernelsFor(Isa isa);

/// Keys and values of `count` tokens, `stride` elements apart, for the places from `slot` on of one
/// head of one block.
struct KvTokens {
  KvType type = KvType::kF32;
  int64_t head_dim = 0;
  const float *keys = nullptr, *values = nullptr;
  int64_t stride = 0;
  int64_t slot = 0, count = 0;
  std::byte *to_keys = nullptr, *to_values = nullptr;
};
struct KvWriteKernels {
  void (*write)(const KvTokens& tokens);
};
OORT_DECLARE_KERNELS(KvWriteKernels)

/// Multiplies a head by a matrix that spreads what stands out (layers/attention/paged/kv_spread.h):
/// each `width` elements, a power of two from 16 on, by Hadamard's matrix of this size over the
/// root of it. `to` may be `from`.
struct KvSpreadKernels {
  void (*spread)(const float* from, float* to, int64_t head_dim, int64_t width);
};
OORT_DECLARE_KERNELS(KvSpreadKernels)

/// Rows that are computed together on tiles of bf16, in prefill.
inline constexpr int kKvTileRows = 64;
inline constexpr int64_t kKvTileTokens = 128;  ///< whose scores are made at a time
/// Whether the elements of a head fill whole tiles.
inline bool FillsKvTiles(int64_t head_dim) { return head_dim % 32 == 0; }

struct KvTiles : KvQueries<kKvTileRows> {
  std::byte* scratch = nullptr;  ///< ScratchBytes(head_dim), in whole lines of the cache
  bool fetches_ahead = false;    ///< the blocks are in no cache of the processor, most likely

  static int64_t ScratchBytes(int64_t head_dim) {
    return head_dim * (kKvTileRows * 6 + kKvTileTokens * 4) + 16 * kKvTileTokens * 6;
  }
};

/// Queries, keys, values and weights are rounded to bf16.
struct KvTileKernels {
  void (*attend)(KvTiles& attention);
};
/// Null where the processor has no such tiles.
const KvTileKernels* KvTileKernelsFor(Isa isa);

}  // namespace oort
