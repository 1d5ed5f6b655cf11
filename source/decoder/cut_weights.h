// SPDX-License-Identifier: MIT
// Parts of weights, which a rank reads without the rest. Weights that are made while the model is
// loaded stay promises.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "decoder/shard_plan.h"
#include "oort/graph.h"

namespace oort {

/// Weights that are operators of their own, as files have those that several share, become
/// attributes of all who read them by a name; they share one tensor.
void AttachWeights(Graph& graph);

/// Leaves of an attribute, if it is there, these rows in this order, at once.
void TakeRows(Operator& op, const std::string& name, const std::vector<AxisRange>& rows);

/// Cuts attributes of operators with stored weights. One that several operators share (a head that
/// is the embeddings) stays shared where they cut it alike.
class WeightCutter {
 public:
  /// Rows of the weight of that suffix, of its scales and minimums, and of its bias.
  void CutRows(Operator& op, const std::string& suffix, const AxisRange& rows);
  /// The same of several ranges, in this order.
  void CutRows(Operator& op, const std::string& suffix, const std::vector<AxisRange>& rows);
  /// Of attention: sinks and biases of distances, a row for each head of queries, and the centre of
  /// keys by its elements.
  void CutHeads(Operator& op, const AxisRange& queries, const AxisRange& key_elements);
  /// Columns of the weight, its scales and minimums; they begin and end with a unit of ColumnUnit.
  void CutColumns(Operator& op, const std::string& suffix, int64_t columns, const AxisRange& kept);
  /// Columns that have to stay together: those of a block, or those that share a scale. 0 where the
  /// format is not known.
  static int64_t ColumnUnit(const Operator& op, const std::string& suffix, int64_t columns);

 private:
  void CutOne(Operator& op, const std::string& name, const AxisRange& rows);
  Tensor Rows(const Tensor& tensor, const AxisRange& rows);

  using Key = std::tuple<const Buffer*, size_t, int64_t, int64_t>;
  std::map<Key, Tensor> promised_;
};

}  // namespace oort
