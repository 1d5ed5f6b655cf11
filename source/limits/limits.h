// SPDX-License-Identifier: MIT
// The speed of light of a language model on a machine: what reading the weights and the cache once
// and multiplying with them must take, whoever does it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limits/model_shape.h"

namespace oort::limits {

/// Numbers that a model is made of; exact as long as they are below 2^53.
struct ParameterCounts {
  double attention = 0, feed_forward = 0, router = 0, norms = 0;  ///< of all layers
  double embedding = 0;                                           ///< with positions, where learned
  double head = 0;  ///< also where it is the embedding
  bool tied = false;
  double attention_active = 0, feed_forward_active = 0;  ///< that one token multiplies with
  double layers() const { return attention + feed_forward + router; }
  double layers_active() const { return attention_active + feed_forward_active + router; }
  /// That one token multiplies with; norms are left out.
  double active() const { return layers_active() + head; }
  /// That a file holds.
  double stored() const { return layers() + norms + embedding + (tied ? 0 : head); }
};
ParameterCounts CountParameters(const ModelShape& shape);

/// Numbers of f32 that a sequence keeps whatever its length, and that each of its tokens reads and
/// writes: states, in all layers.
double StateOf(const ModelShape& shape);

/// Numbers of the cache that one position adds, in all layers.
double CacheOfPosition(const ModelShape& shape);
/// That a sequence of `length` keeps, which windows limit.
double CacheOf(const ModelShape& shape, double length);

/// How many bits a weight and a number of the cache take.
struct BitWidths {
  double weight_bits = 16, cache_bits = 16;
  /// Weights of layers have 8 bits, and so have the activations that prompts multiply with them.
  bool bytes = false;
  double table_bits = 0;  ///< of embeddings and head, in the memory of a GPU; 0: as weights
};

struct Machine {
  std::string name;
  std::string title;
  double bandwidth = 0;  ///< bytes a second
  double flops = 0;      ///< dense multiplies and adds a second, of 16-bit numbers
  double memory = 0;     ///< bytes
  /// Seconds that a layer of a token takes beside reading and multiplying, however many machines
  /// share it: launches, norms, what waits for them. Only DecodeOnRanks counts them.
  double layer_overhead = 0;
  double byte_rate = 1;  ///< how many times as many products of 8 bits it makes
};
/// A100, H100, H200, 4090, Xeon, Neoverse.
std::span<const Machine> KnownMachines();
/// By name; throws kNotFound with the names there are.
const Machine& FindMachine(std::string_view name);

/// This one, by a second of measuring: the fastest multiply-adds of any type, and reading memory.
/// `threads` 0: as many as the process may use.
Machine MeasureThisMachine(int threads = 0);

struct TimeLimit {
  double read = 0, compute = 0;  ///< seconds that each takes by itself
  double seconds() const { return read > compute ? read : compute; }
  bool compute_bound() const { return compute > read; }
};

/// Whether a prompt's logits are computed for its last position or for all.
enum class Head { kOnce, kAll };

/// How often a prompt reads its own keys and values: each once, which is the least, or each
/// position those before it, as attention does that takes one query at a time.
enum class CacheReads { kOnce, kEachPosition };

/// A prompt of `length` tokens, layer by layer, so that weights are read once.
TimeLimit PrefillLimit(const ModelShape& shape, BitWidths precision, const Machine& machine,
                       double length, Head head = Head::kOnce,
                       CacheReads reads = CacheReads::kOnce);
/// Lengths at which the limit changes between memory and compute, ascending.
std::vector<double> PrefillTurns(const ModelShape& shape, BitWidths precision,
                                 const Machine& machine, Head head = Head::kOnce,
                                 CacheReads reads = CacheReads::kOnce);
/// One token each for `batch` sequences at `position` (1: the first), which is in the cache too.
TimeLimit DecodeLimit(const ModelShape& shape, BitWidths precision, const Machine& machine,
                      double position, double batch = 1);
/// The same where the bytes of the weights are known, as of a file.
TimeLimit DecodeLimitOfBytes(const ModelShape& shape, double weight_bytes, double cache_bits,
                             const Machine& machine, double position);
/// Positions that add a millisecond to the time of a token; infinity where none does.
double PositionsPerMillisecond(const ModelShape& shape, BitWidths precision,
                               const Machine& machine);

/// Longest sequence whose cache fits beside the weights; -1 where the weights do not fit. Without
/// the embedding if that is kept elsewhere.
double LongestContext(const ModelShape& shape, BitWidths precision, double memory,
                      bool with_embedding = true);
/// Most sequences of `length` that fit; -1 where the weights do not.
double LargestBatch(const ModelShape& shape, BitWidths precision, double memory, double length);
/// Sequences at `position` from which on decoding is bound by compute; infinity where never.
double BalancedBatch(const ModelShape& shape, BitWidths precision, const Machine& machine,
                     double position);

}  // namespace oort::limits
