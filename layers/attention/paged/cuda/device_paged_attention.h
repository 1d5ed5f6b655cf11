// SPDX-License-Identifier: MIT
// Attention over a paged KV cache (Kwon et al. 2023) in the memory of a GPU.
#pragma once

#include <cstdint>

#include "layers/attention/paged/sequence_table.h"

namespace oort::cuda {

class Stream;

/// Tokens of a block, for kernels: a division by it is a shift.
inline constexpr unsigned kKvBlock = KvCache::kBlockTokens;

/// Keys and values of one layer. Those of a head in a block are (tokens, head_dim), values behind
/// keys; strides are in elements.
struct DeviceKv {
  void* keys = nullptr;
  void* values = nullptr;
  int64_t block_stride = 0;
  int64_t head_stride = 0;
  KvType type = KvType::kF16;  ///< of kInt8, as everywhere, scales stand behind the elements
};

struct AttentionArgs {
  int rows = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;
  int group = 1;                 ///< heads of queries for each of keys: set by who launches
  const float* query = nullptr;  ///< (rows, heads, head_dim)
  const float* key = nullptr;    ///< (rows, kv_heads, head_dim), of the new tokens
  const float* value = nullptr;
  const float* key_centre = nullptr;  ///< (kv_heads, head_dim), which kInt8 keeps keys without
  /// (rows, 2, pairs): cosines and sines by which pairs of queries and keys turn; null for none.
  const float* angles = nullptr;
  int pairs = 0;
  bool interleaved = false;
  float scale = 1, softcap = 0;
  int window = 0;        ///< keys that a token sees, itself included; 0 for all
  bool chunked = false;  ///< those since the last multiple of `window`
  float* out = nullptr;
  DeviceSequences sequences;
  DeviceKv kv;
};

/// Up to so many sequences the result of one does not depend on how many others there are.
inline constexpr int kInvariantRows = 16;

/// Whether there are kernels for it.
bool CanAttend(int heads, int kv_heads, int head_dim);

/// Every row is the newest token of a sequence of its own: turns, writes and attends at once. Only
/// for what CanTurnAtOnce.
void AttendNewest(const Stream& stream, const AttentionArgs& args, bool overlap);

/// Whether the pairs of the rotation lie so that lanes with eight elements each can rotate them,
/// and write them: a scale needs all of a head.
inline bool CanTurnAtOnce(const AttentionArgs& args) {
  return args.kv.type != KvType::kInt8 &&
         (args.angles == nullptr || args.pairs % (args.interleaved ? 4 : 8) == 0);
}

/// Turns keys, writes keys and values of all rows into the cache, and the turned queries to
/// `turned` (like query).
void WriteKeysAndValues(const Stream& stream, const AttentionArgs& args, float* turned,
                        bool overlap);
/// Attention of rows whose keys and values are in the cache; args.query is turned already.
void AttendWritten(const Stream& stream, const AttentionArgs& args, bool overlap);

/// Whether AttendGroups is the faster way for these rows: of heads of queries that share keys, and
/// enough of them.
bool GroupsFillGpu(int device, const AttentionArgs& args);
/// The same as AttendWritten for rows of different sequences, on tensor cores: queries and weights
/// are rounded to f16.
void AttendGroups(const Stream& stream, const AttentionArgs& args, bool overlap);

/// Whether AttendTiles can do it: heads of 64 or 128 elements, keys and values of 16 or 8 bits.
bool CanAttendTiles(const AttentionArgs& args);
/// The same as AttendWritten for the rows in the first `tiles` tiles of args.sequences, on tensor
/// cores: queries and weights are rounded to f16.
void AttendTiles(const Stream& stream, const AttentionArgs& args, int64_t tiles, bool overlap);

}  // namespace oort::cuda
