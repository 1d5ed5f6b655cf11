// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <vector>

#include "oort/value.h"

namespace oort {

/// What nn.MultiheadAttention is given, as indices into its inputs; -1 where there is none.
struct MhaInputs {
  int query = -1, key = -1, value = -1;
  int attention_mask = -1;  ///< (L,S) or (N*heads,L,S)
  int padding_mask = -1;    ///< (N,S)
};

/// pnnx names the inputs loosely: a bool mask comes first and its `$attn_mask` marks another input,
/// so they are told apart by dtype and shape. Throws kInvalidArgument where that is impossible, or
/// where the query is not of a `rank` that is not 0.
MhaInputs MatchMhaInputs(std::span<const Value* const> inputs,
                         const std::vector<std::string>& names, bool batch_first, int64_t rank);

}  // namespace oort
