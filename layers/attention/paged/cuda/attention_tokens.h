// SPDX-License-Identifier: MIT
// The tokens that decode attention reads: those in the paged cache, and the newest one. For
// decode_attention.cu alone.
#pragma once

#include <cstdint>

#include "layers/attention/paged/cuda/attention_elements.h"
#include "layers/attention/paged/cuda/device_paged_attention.h"
#include "layers/attention/paged/cuda/seen_tokens.h"

namespace oort::cuda::attention {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;

/// A load that the compiler cannot move. It would move loads to where their values are used, and
/// each would wait for the one before.
__device__ __forceinline__ int32_t LoadNow(const int32_t* from) {
  int32_t value;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}

/// The tokens of a team, and where they lie in the cache. With n thread blocks in the cluster, each
/// takes every n-th block of the sequence, and a team takes the same slot of each: so the
/// assignment depends on nothing that must be loaded first.
template <typename Element, int kLanes, int kParts>
struct View {
  static constexpr int kTeams = kThreads / kLanes, kTokens = static_cast<int>(kKvBlock);
  static_assert(kTeams % kTokens == 0 || kTokens % kTeams == 0);
  const int32_t* table;
  int entries;          ///< of the table that can be read
  int first, newest;    ///< tokens
  const Element* keys;  ///< of block 0: what this lane has of its first token
  int64_t to_values;    ///< from a key to its value
  int block_stride, token_stride;

  __device__ __forceinline__ View(const AttentionArgs& a, int row, int head) {
    newest = a.sequences.positions[row];
    const int first_block = row == 0 ? 0 : a.sequences.first_blocks[row];
    table = a.sequences.blocks + first_block;
    entries = a.sequences.most_blocks - first_block;
    first = FirstSeen(a, newest);
    token_stride = a.head_dim;
    keys =
        static_cast<const Element*>(a.kv.keys) + head * a.kv.head_stride + threadIdx.x % kLanes * 8;
    to_values = static_cast<const Element*>(a.kv.values) - static_cast<const Element*>(a.kv.keys);
    block_stride = static_cast<int>(a.kv.block_stride);
  }
  static __device__ __forceinline__ int Team() { return static_cast<int>(threadIdx.x) / kLanes; }
  /// Maps the n-th token of the team to its block of the sequence and to its position.
  static __device__ __forceinline__ int Index(int n) {
    return (n * kTeams + Team()) / kTokens * kParts + static_cast<int>(blockIdx.x);
  }
  static __device__ __forceinline__ int Token(int n) {
    return Index(n) * kTokens + (n * kTeams + Team()) % kTokens;
  }
  /// The smallest position among the n-th tokens of all teams of this thread block.
  static __device__ __forceinline__ int FirstToken(int n) {
    return (n * kTeams / kTokens * kParts + static_cast<int>(blockIdx.x)) * kTokens;
  }
  /// The first n whose token may lie within the window of attention.
  __device__ __forceinline__ int FirstNumber() const {
    constexpr int kTogether = kTeams > kTokens ? kTeams : kTokens;
    return first / (kTogether * kParts) * (kTogether / kTeams);
  }
  __device__ __forceinline__ bool Sees(int token) const {
    return token >= first && token <= newest;
  }
  __device__ __forceinline__ const Element* KeyOf(int32_t block, int token) const {
    return keys + static_cast<int64_t>(block) * block_stride + token % kTokens * token_stride;
  }
  /// Where the scale of a key stands; that of its value is to_values bytes behind it.
  __device__ __forceinline__ const char* ScaleOf(int32_t block, int token) const {
    const int lane = threadIdx.x % kLanes * 8;
    return reinterpret_cast<const char*>(KeyOf(block, 0) - lane + kTokens * token_stride) +
           token % kTokens * sizeof(float);
  }
};

/// Several tokens of a team, from the n-th on.
template <typename Element, int kLanes, int kParts>
struct Tokens {
  static constexpr int kAhead = Packed<Element>::kAhead;
  Packed<Element> keys[kAhead], values[kAhead];
  int32_t blocks[kAhead];

  /// Loads the indices of their cache blocks. It may read more entries than the sequence has.
  __device__ __forceinline__ void Find(const View<Element, kLanes, kParts>& view, int n) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      blocks[i] = LoadNow(view.table + min(view.Index(n + i), view.entries - 1));
    }
  }
  /// Begins to load the tokens that are in the cache, except token `but`. `has` says whether the
  /// lane has elements of the head.
  __device__ __forceinline__ void Load(const View<Element, kLanes, kParts>& view, int n, int but,
                                       bool has) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int token = view.Token(n + i);
      const Element* key = view.KeyOf(blocks[i], token);
      if (!has || !view.Sees(token) || token == but) continue;
      keys[i].Load(key);
      values[i].Load(key + view.to_values);
      if constexpr (Packed<Element>::kScaled) {
        const char* scale = view.ScaleOf(blocks[i], token);
        keys[i].LoadScale(reinterpret_cast<const float*>(scale));
        values[i].LoadScale(reinterpret_cast<const float*>(scale + view.to_values));
      }
    }
  }
};

/// The newest token. Its key and value come from the kernel before this one; the team that has it
/// writes it into the cache.
template <typename Element, int kLanes, int kParts>
struct Newest {
  TurnedEight key;
  Eight value;
  int n = -1;         // its number among the team's tokens
  int32_t block = 0;  // of the cache

  __device__ __forceinline__ explicit Newest(const View<Element, kLanes, kParts>& view) {
    using V = View<Element, kLanes, kParts>;
    const int index = view.newest / V::kTokens;
    const int own = index / kParts * V::kTokens + view.newest % V::kTokens;
    if (index % kParts != static_cast<int>(blockIdx.x) || own % V::kTeams != V::Team()) return;
    n = own / V::kTeams;
    block = LoadNow(view.table + index);
  }
  __device__ __forceinline__ void Load(const AttentionArgs& a, const float* angles, int row,
                                       int head, int d) {
    const int64_t from = (static_cast<int64_t>(row) * a.kv_heads + head) * a.head_dim;
    key.Load(a.key + from, d, angles, a.pairs, a.interleaved);
    value = LoadEight(a.value + from + d);
  }
  /// Takes its place among the tokens from the one with number `here` on.
  __device__ __forceinline__ void Join(const View<Element, kLanes, kParts>& view, int here,
                                       bool writes, Tokens<Element, kLanes, kParts>& tokens) const {
    const Packed<Element> new_key = Packed<Element>::Of(key.Get());
    const Packed<Element> new_value = Packed<Element>::Of(value);
#pragma unroll
    for (int i = 0; i < Tokens<Element, kLanes, kParts>::kAhead; ++i) {
      if (here + i == n) tokens.keys[i] = new_key, tokens.values[i] = new_value;
    }
    if (!writes) return;
    Element* to = const_cast<Element*>(view.KeyOf(block, view.newest));
    new_key.Store(to);
    new_value.Store(to + view.to_values);
  }
};

/// It is not inlined, because few models need it, and all would wait for the longer code.
__device__ __noinline__ float Capped(float score, float cap) { return cap * tanhf(score / cap); }

/// Adds a team's tokens from number n on.
template <typename Element, int kLanes, int kParts, int kGroup>
__device__ __forceinline__ void AddTokens(const AttentionArgs& a,
                                          const View<Element, kLanes, kParts>& view,
                                          const Tokens<Element, kLanes, kParts>& tokens, int n,
                                          const Eight (&query)[kGroup],
                                          Running (&running)[kGroup]) {
  // All scores are computed first, because they do not depend on each other.
  constexpr int kAhead = Tokens<Element, kLanes, kParts>::kAhead;
  float scores[kAhead][kGroup];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const Eight key = tokens.keys[i].Widen();
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      float score = 0;
#pragma unroll
      for (int d = 0; d < 8; ++d) score = fmaf(query[g].v[d], key.v[d], score);
      scores[i][g] = score;
    }
  }
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        scores[i][g] += __shfl_xor_sync(~0u, scores[i][g], offset);
      }
    }
  }
  if (a.softcap > 0) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int g = 0; g < kGroup; ++g) scores[i][g] = Capped(scores[i][g] * a.scale, a.softcap);
    }
  }
  const float scale = a.softcap > 0 ? 1.0f : a.scale;
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    float most = running[g].largest;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const float score = scores[i][g] * scale;
      scores[i][g] = view.Sees(view.Token(n + i)) ? score : 2 * kNone;
      most = fmaxf(most, scores[i][g]);
    }
    running[g].Raise(most);
  }
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const Eight value = tokens.values[i].Widen();
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      running[g].Add(__expf(scores[i][g] - running[g].largest), value);
    }
  }
}

}  // namespace oort::cuda::attention
