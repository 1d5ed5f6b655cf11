// SPDX-License-Identifier: MIT
// Which matrices of a language model get more bits than others, so that all together stay within a
// number of bits a weight and lose least.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "llm_quantize/importance.h"
#include "llm_quantize/targets.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort::llm_quantize {

/// One way to store a matrix.
struct Offer {
  double bytes = 0, error = 0;
};

/// For each matrix the number of the offer that it takes: those with which the errors add up to
/// little and the bytes to no more than `most_bytes`. Offers of a matrix are sorted by bytes. Each
/// time the next step is that which saves most error for its bytes. Throws kInvalidArgument where
/// the smallest offers are too large.
std::vector<size_t> PickOffers(std::span<const std::vector<Offer>> matrices, double most_bytes);

/// Picks the types of the matrices of these names, but for those of which a rule says something.
/// Errors are those of what a matrix gives, by its squares, for inputs of that importance.
void PickWithinBudget(const Checkpoint& checkpoint, const std::vector<std::string>& names,
                      const Importance& importance, double bits, int threads, Targets& targets);

}  // namespace oort::llm_quantize
