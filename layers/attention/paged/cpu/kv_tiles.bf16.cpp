// SPDX-License-Identifier: MIT
// Prefill attention on matrix units for bf16, in the manner of FlashAttention (Dao et al. 2022):
// scores and sums of values are products of tiles, and scores never leave the cache. Keys and
// values are rounded to bf16 once for all rows.
#include <algorithm>
#include <cstring>

#if defined(OORT_UNIT_amx)
#include "layers/attention/paged/cpu/kv_tiles_amx.h"
#elif defined(OORT_UNIT_neon_bf16)
#include "layers/attention/paged/cpu/kv_tiles_neon.h"
#endif

#if defined(OORT_UNIT_amx) || defined(OORT_UNIT_neon_bf16)
namespace oort::OORT_ISA {
namespace {

/// The parts of the scratch memory. All but scores and sums are bf16.
struct TileBuffers {
  uint16_t* query;    ///< (kKvTileRows, head_dim), as the unit takes it
  uint16_t* keys;     ///< (kStepTokens, head_dim), likewise
  uint16_t* values;   ///< likewise
  uint16_t* weights;  ///< (kTileRows, kStepTokens), likewise
  float* scores;      ///< (kTileRows, kStepTokens)
  float* sums;        ///< (kKvTileRows, head_dim)

  explicit TileBuffers(const KvTiles& a) {
    std::byte* next = a.scratch;
    const auto take = [&](int64_t bytes) {
      std::byte* here = next;
      next += bytes;
      return here;
    };
    query = reinterpret_cast<uint16_t*>(take(kKvTileRows * a.head_dim * 2));
    keys = reinterpret_cast<uint16_t*>(take(kStepTokens * a.head_dim * 2));
    values = reinterpret_cast<uint16_t*>(take(kStepTokens * a.head_dim * 2));
    weights = reinterpret_cast<uint16_t*>(take(kTileRows * kStepTokens * 2));
    scores = reinterpret_cast<float*>(take(kTileRows * kStepTokens * 4));
    sums = reinterpret_cast<float*>(take(kKvTileRows * a.head_dim * 4));
  }
};

/// How many of the blocks are needed: up to the last one that any row of a tile sees.
int SeenBlocks(const KvTiles& a, int row, int64_t block, int count) {
  const int64_t begin = block * kTokens, end = (block + count) * kTokens;
  int64_t seen = begin;
  for (int r = row; r < a.rows && r < row + kTileRows; ++r) {
    if (a.first[r] < end) seen = std::max(seen, std::min(a.last[r] + 1, end));
  }
  return static_cast<int>((seen - begin + kTokens - 1) / kTokens);
}

template <KvType type>
void RoundBlocks(const KvTiles& a, int64_t block, int count, const TileBuffers& to) {
  for (int i = 0; i < count; ++i) {
    const KvBlock& from = a.blocks[block + i];
    const int64_t at = i * a.head_dim * kTokens;
    RoundKeys<type>(from.keys, a.head_dim, to.keys + at);
    RoundValues<type>(from.values, a.head_dim, a.end - (block + i) * kTokens, to.values + at);
  }
  if (count % kBlocksAtOnce != 0) {
    const int64_t elements = a.head_dim * kTokens;
    std::memset(to.values + count * elements, 0, static_cast<size_t>(elements) * sizeof(uint16_t));
  }
}

void RoundBlocks(const KvTiles& a, int64_t block, int count, const TileBuffers& to) {
  switch (a.type) {
    case KvType::kF32: return RoundBlocks<KvType::kF32>(a, block, count, to);
    case KvType::kF16: return RoundBlocks<KvType::kF16>(a, block, count, to);
    case KvType::kInt8: return RoundBlocks<KvType::kInt8>(a, block, count, to);
    case KvType::kK6V4: return RoundBlocks<KvType::kK6V4>(a, block, count, to);
    case KvType::kFp8: break;  // refused before
  }
}

/// A tile of rows over the tokens of some blocks.
void AttendStep(KvTiles& a, int row, int64_t block, int count, const TileBuffers& buffers,
                FetchNextStep& fetch) {
  float* sums = buffers.sums + row * a.head_dim;
  fetch();
  StepScores(buffers.query + row * a.head_dim, buffers.keys, a.head_dim, count, buffers.scores);
  fetch();
  WeighRows(a, row, block * kTokens, count, buffers.scores, buffers.weights, sums);
  fetch();
  StepValues(buffers.weights, buffers.values, a.head_dim, count * kTokens, sums);
}

void AttendTiles(KvTiles& a) {
  const TileBuffers buffers(a);
  const size_t elements = static_cast<size_t>(a.head_dim);
  RoundQueries(a, buffers.query);
  std::memset(buffers.weights, 0, kTileRows * kStepTokens * sizeof(uint16_t));
  std::memset(buffers.sums, 0, kKvTileRows * elements * sizeof(float));
  for (int r = 0; r < a.rows; ++r) {
    a.max[r] = kMasked;
    a.weight[r] = 0;
  }
  BeginTiles();
  const int64_t last_block = (a.end + kTokens - 1) / kTokens;
  for (int64_t block = a.begin / kTokens; block < last_block; block += kStepBlocks) {
    const int count =
        static_cast<int>(last_block - block < kStepBlocks ? last_block - block : kStepBlocks);
    RoundBlocks(a, block, count, buffers);
    const int64_t next = block + count;
    FetchNextStep fetch(a, next, std::min(next + kStepBlocks, last_block),
                        (a.rows + kTileRows - 1) / kTileRows * 3);
    for (int row = 0; row < a.rows; row += kTileRows) {
      const int seen = SeenBlocks(a, row, block, count);
      if (seen > 0) AttendStep(a, row, block, seen, buffers, fetch);
    }
  }
  EndTiles();
  for (int r = 0; r < a.rows; ++r) {
    const Vec inverse(1.0f / a.weight[r]);
    const float* from = buffers.sums + r * a.head_dim;
    for (int64_t d = 0; d < a.head_dim; d += Vec::kWidth) {
      (Vec::Load(from + d) * inverse).Store(a.sums[r] + d);
    }
  }
}

}  // namespace

const KvTileKernels& KvTileKernelsGet() {
  static constexpr KvTileKernels kTable = {.attend = AttendTiles};
  return kTable;
}

}  // namespace oort::OORT_ISA
#endif
