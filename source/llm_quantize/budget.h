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

/// Tries the types that matrices may get, then picks among them.
class BudgetPicker {
 public:
  BudgetPicker(const Checkpoint& checkpoint, const Targets& targets, int threads)
      : checkpoint_(checkpoint), targets_(targets), threads_(threads) {}

  /// Tries the types of one matrix. The error of a type is that of what the matrix gives, squared,
  /// by the squares of what it should give, in the mean over some of the `inputs` (f32, a row for
  /// each token), so that a few tokens with huge numbers do not decide alone. Without inputs: over
  /// all, as far as the importance of the columns tells; empty, all count alike.
  void Try(const std::string& name, std::span<const float> importance, const Tensor* inputs);
  /// Picks the types of all that were tried, but for those of which a rule says something.
  void Pick(double bits, Targets& targets) const;

 private:
  struct Tried {
    std::string name;
    std::vector<QuantizeOptions> types;
  };
  const Checkpoint& checkpoint_;
  const Targets& targets_;
  int threads_;
  std::vector<Tried> open_;
  std::vector<std::vector<Offer>> offers_;  ///< of open_
  double weights_ = 0;                      ///< of all matrices
  double fixed_ = 0;                        ///< bytes of those that are not open
};

}  // namespace oort::llm_quantize
