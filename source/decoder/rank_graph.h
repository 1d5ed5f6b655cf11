// SPDX-License-Identifier: MIT
// A graph of which each rank is to have a part: which part of each operand a rank has, and the
// exchanges that put parts together.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decoder/shard.h"
#include "decoder/shard_plan.h"
#include "oort/graph.h"

namespace oort {

/// Heads cannot be shared out: all ranks then compute attention whole.
struct HeadsStayWhole {};
/// The same of scans, whose states all ranks then have whole.
struct ScansStayWhole {};

/// What a rank has of an operand. kSplit: a range of the last axis. kHeads: the same of the last
/// two, as heads and their elements. kParts: several ranges of the last axis, of which ranks may
/// have some in common.
struct RankPlacement {
  enum Kind : unsigned char { kWhole, kSplit, kHeads, kParts } kind = kWhole;
  AxisRanges ranges = {};   ///< in elements
  int64_t width = 0;        ///< of all ranks
  RangesInTurn parts = {};  ///< in place of `ranges`

  static RankPlacement Of(const RangesInTurn& parts) {
    const int64_t width = parts.back().back().end;
    if (parts.size() == 1) return {kSplit, parts[0], width};
    return {kParts, {}, width, parts};
  }
  bool operator==(const RankPlacement&) const = default;
};

/// What rules for operators are made of.
class RankGraph {
 public:
  RankGraph(Graph& graph, const ShardOptions& options) : graph_(graph), options_(options) {}

 protected:
  ~RankGraph() = default;

  Operator& Op(int index) { return graph_.operators[static_cast<size_t>(index)]; }
  const RankPlacement& PlaceOf(int operand) { return places_[operand]; }
  /// Whatever is cut is cut here, so here is counted how.
  AxisRange Mine(const AxisRanges& ranges);

  static std::vector<int64_t> IntsOf(const Operator& op, const std::string& name);
  static void SetInt(Operator& op, const std::string& name, int64_t value);

  /// That of an operand, if it has this type; or -1.
  int Producer(int operand, std::string_view type);
  bool IsProduct(int operand) { return Producer(operand, "oort.QuantizedLinear") >= 0; }
  /// Whether it is (rows, 1), which goes with each rank's part of the rows.
  bool IsColumn(int operand);
  /// Whether it is a number for each element of a row, for one reader alone.
  bool IsWeight(int operand, int64_t width);

  int AddExchange(const std::string& type, const std::string& name, std::vector<int> inputs,
                  int output, const Tensor& bias = {});
  void SetParts(int gather, const AxisRanges& ranges);
  /// The operand with the parts of all ranks.
  int Whole(int operand);
  void GatherInputs(int index);
  /// The operator makes a new operand, from which an exchange is to make its output.
  int Detach(int index, const std::string& name);
  void Place(int operand, RankPlacement place);

  Graph& graph_;
  const ShardOptions options_;
  ShardReport report_;

 private:
  std::map<int, RankPlacement> places_;  // of operands that are not whole
  std::map<int, int> gathered_;          // operands, by those that they are the parts of
};

}  // namespace oort
