// SPDX-License-Identifier: MIT
// Where the answers that keep to one grammar have got to. They learn its steps and masks together:
// what one of them has found, no other computes again.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/machine.h"
#include "grammar/masks.h"
#include "grammar/token_trie.h"

namespace oort::grammar {

/// Thread contract: any number of threads at once, each with places of its own.
class AnswerPlaces {
  struct Learned;

 public:
  /// A configuration of the machine, which it keeps; of none before the first byte.
  struct Place {
    std::shared_ptr<Learned> in;
    int32_t at = Machine::kDead;
    size_t work = 0;  ///< that the answer has made beyond what is usual
  };
  struct Limits {
    size_t bytes = size_t{32} << 20;   ///< of what was learnt, which is forgotten beyond
    size_t work = Machine::kMostWork;  ///< of an answer
  };

  /// `masks` must outlive this.
  AnswerPlaces(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTrie> trie,
               StateMasks& masks)
      : AnswerPlaces(std::move(automaton), std::move(trie), masks, Limits()) {}
  AnswerPlaces(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTrie> trie,
               StateMasks& masks, const Limits& limits)
      : automaton_(std::move(automaton)), trie_(std::move(trie)), masks_(masks), limits_(limits) {}

  // These throw kLimit where an answer makes more work than answers may: others wait for it.
  /// Goes on by these bytes; false, and stays, where they may not follow.
  bool Step(Place& place, std::string_view bytes);
  /// Sets the bits of the tokens that may follow.
  void Mask(Place& place, std::span<uint32_t> bits);
  /// The same for those whose bytes behind this node of the trie may follow.
  void MaskBelow(Place& place, uint32_t node, std::span<uint32_t> bits);
  bool complete(const Place& place);
  size_t bytes() const;

 private:
  /// Under the lock: the machine of all, in which the place then is.
  Machine& Enter(Place& place);
  void Count(Place& place, const Machine& machine) const;
  std::shared_ptr<const StateMask> MaskOf(Place& place);

  const std::shared_ptr<const Automaton> automaton_;
  const std::shared_ptr<const TokenTrie> trie_;
  StateMasks& masks_;
  const Limits limits_;
  mutable std::mutex mutex_;  // of what follows, and of what it points to
  std::shared_ptr<Learned> learned_;
};

}  // namespace oort::grammar
