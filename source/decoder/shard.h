// SPDX-License-Identifier: MIT
// The part of a graph that one of several ranks computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decoder/shard_plan.h"
#include "oort/graph.h"

namespace oort {

struct ShardOptions {
  int rank = 0, ranks = 1;
  /// Every number is computed whole by one rank, so that results are those of one rank bit by bit:
  /// twice as many exchanges as with sums of partial products.
  bool exact = false;
  /// Heads of keys have equally many queries on a rank, as attention on a GPU wants it.
  bool even_groups = false;
};

struct ShardReport {
  int64_t kv_heads = 0;       ///< of this rank, in the cache
  AxisRange text_heads = {};  ///< of this rank, in attention to what an encoder has read
  int64_t exchanges = 0;      ///< operators that wait for other ranks
  size_t weight_bytes = 0;    ///< of this rank
  /// The same number on all ranks that share the model out alike.
  uint64_t plan = 0;
  /// Operators with weights that each rank computes whole, because there is no rule for them.
  std::vector<std::string> whole;
};

/// Leaves of each weight what this rank multiplies, and puts exchanges with the other ranks where
/// numbers of several are needed. An operator without a rule is computed by all: so every graph
/// gives the same results on any number of ranks. Runs before all other passes.
ShardReport Shard(Graph& graph, const ShardOptions& options);

}  // namespace oort
