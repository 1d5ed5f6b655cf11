// SPDX-License-Identifier: MIT
// What several machines can do for one answer: each reads its part of the weights, and then they
// wait for each other.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "limits/limits.h"

namespace oort::limits {

/// How machines, or GPUs, reach each other.
struct Link {
  std::string name;
  std::string title;
  double latency = 0;    ///< seconds of an exchange of nothing
  double bandwidth = 0;  ///< bytes a second that a rank receives
};
/// nvlink, pcie, memory, 100gbe, 10gbe, 1gbe.
std::span<const Link> KnownLinks();
/// By name; throws kNotFound with the names there are.
const Link& FindLink(std::string_view name);

struct RankTime {
  double own = 0;       ///< seconds of a rank's part of a token, with what no rank can share
  double exchange = 0;  ///< seconds of waiting for the numbers of others
  double seconds() const { return own + exchange; }
};

/// A token at `position` on so many machines of one kind. Each layer ends its attention and its
/// feed-forward with a sum over all ranks, of numbers of four bytes that each rank sends to all; so
/// do the embeddings, and the likeliest token is found by one more exchange. A layer with a state
/// ends with one such sum where ranks have whole groups of its heads; elsewhere the ranks gather
/// what goes into its last product and what comes out.
RankTime DecodeOnRanks(const ModelShape& shape, BitWidths precision, const Machine& machine,
                       const Link& link, int ranks, double position);

}  // namespace oort::limits
