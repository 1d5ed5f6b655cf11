// SPDX-License-Identifier: MIT
// Attention over keys and values that lie in blocks (oort/kv_cache.h).
#pragma once

#include "cpu/kernels.h"
#include "oort/kv_cache.h"

namespace oort {

/// Rows that are attended at a time: they share the keys and values of one head.
inline constexpr int kKvRows = 8;

struct KvBlock {
  const std::byte* keys;
  const std::byte* values;
};

/// Rows of queries over the tokens [begin, end) of one sequence.
struct KvAttention {
  KvType type = KvType::kF32;
  int64_t head_dim = 0;
  int rows = 0;
  const float* query[kKvRows] = {};  ///< head_dim elements each
  float scale = 1;
  float softcap = 0;            ///< 0: none
  int64_t first[kKvRows] = {};  ///< tokens that a row sees: [first, last]
  int64_t last[kKvRows] = {};
  int64_t begin = 0, end = 0;
  const KvBlock* blocks = nullptr;  ///< of the sequence, from token 0 on
  // Results: sums of values weighted with exp(score - max), and the sums of these weights.
  float* sums[kKvRows] = {};
  float max[kKvRows] = {};
  float weight[kKvRows] = {};
};

struct KvKernels {
  void (*attend)(KvAttention& attention);
  /// Writes the key and the value of a token into its place in a block.
  void (*write)(KvType type, const float* key, const float* value, int64_t head_dim, int64_t slot,
                std::byte* keys, std::byte* values);
};
OORT_DECLARE_KERNELS(KvKernels)

}  // namespace oort
