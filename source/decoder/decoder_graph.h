// SPDX-License-Identifier: MIT
// A decoder's graph together with what its users must know of it: they need not look for operators
// in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oort/graph.h"
#include "oort/sequence_state.h"

namespace oort {

/// The outputs of a decoder's graph once it has both; what its head reads is there where others
/// guess from it.
inline constexpr int kLogitsOutput = 0, kArgmaxOutput = 1, kHiddenOutput = 2;

struct DecoderGraph {
  Graph graph;
  /// Operators that read and write the cache of keys and values, by name.
  std::vector<std::string> attention;
  int64_t cache_layers = 0;  ///< of that cache: layers may share one
  /// What layers keep of each sequence besides.
  StateShape state;
  /// Longest sequence of those whose positions turn by the usual angles; 0: there are no others.
  int64_t short_context = 0;
  size_t weight_bytes = 0;  ///< of all weights
  size_t step_bytes = 0;    ///< of those that a step of one token reads

  /// Reads all this off a graph that has the operators of BuildDecoder, whoever wrote it.
  explicit DecoderGraph(Graph written);
  DecoderGraph() = default;
};

/// Whether it is a recurrence over a sequence's tokens, whose matrices are a part of its state.
inline bool IsScan(const Operator& op) {
  return op.type == "oort.StateScan" || op.type == "oort.DeltaScan";
}

/// What the operators of a graph keep of each sequence besides keys and values.
StateShape StateOf(const Graph& graph);

/// Of all weights of a graph, those that operators share once.
size_t WeightBytes(const Graph& graph);

/// A second output: the token that greedy sampling picks of each row. Where it `may_skip_logits`,
/// it is computed without them if they are nothing but products with one weight.
void AddArgmax(Graph& graph, bool may_skip_logits);

}  // namespace oort
