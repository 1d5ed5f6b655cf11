// SPDX-License-Identifier: MIT
// Which tokens may follow. Most of it depends on a state of the automaton alone: that part is found
// once for a state, by a walk over the trie of all tokens, and kept. What is left are tokens that
// go on behind the end of the state's rule, which the stack decides.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/machine.h"
#include "grammar/token_trie.h"

namespace oort::grammar {

/// The tokens that a state takes, whatever stack is below it.
struct StateMask {
  std::vector<uint32_t> bits;     ///< of these tokens; empty where few are
  std::vector<int32_t> tokens;    ///< or the tokens
  std::vector<uint32_t> returns;  ///< nodes of the trie, with others below, where the rule may end

  /// Keeps the bits, or the tokens where these are fewer.
  void Keep(std::vector<uint32_t> all);
  void AddTo(std::span<uint32_t> allowed) const;
  size_t bytes() const { return 4 * (bits.size() + tokens.size() + returns.size()); }
};

/// Thread contract: any number of threads at once.
class StateMasks {
 public:
  StateMasks(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTrie> trie);

  /// Adds to `work` what it took to find.
  std::shared_ptr<const StateMask> Of(int32_t state, size_t& work);
  /// Finds the masks of states that take nearly every byte, as those inside of strings, for so long
  /// at most: these are the long walks.
  void Prepare(std::chrono::milliseconds most);
  size_t bytes() const;

 private:
  std::shared_ptr<const StateMask> Walk(int32_t state);

  const std::shared_ptr<const Automaton> automaton_;
  const std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;
  std::unique_ptr<Machine> machine_;
  std::vector<std::shared_ptr<const StateMask>> masks_;  ///< by state
  size_t mask_bytes_ = 0;
};

/// Sets the bits of all tokens that may follow in configuration `at` of the machine.
void MaskTokens(Machine& machine, int32_t at, StateMasks& masks, const TokenTrie& trie,
                std::span<uint32_t> bits);
/// Sets those of all tokens below a node of the trie whose bytes behind that node may follow.
void MaskBelow(Machine& machine, int32_t at, const TokenTrie& trie, uint32_t node,
               std::span<uint32_t> bits);

inline void SetBit(std::span<uint32_t> bits, int32_t token) {
  const auto i = static_cast<size_t>(token);
  if (i / 32 < bits.size()) bits[i / 32] |= uint32_t{1} << (i % 32);
}

}  // namespace oort::grammar
