// SPDX-License-Identifier: MIT
// What all answers that keep to one grammar share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar/answer_places.h"
#include "grammar/automaton.h"
#include "grammar/masks.h"
#include "grammar/token_trie.h"
#include "oort/tokenizer.h"

namespace oort::grammar {

/// What the tokens of a model say, and what of it every grammar needs.
struct Vocabulary {
  Vocabulary(const Tokenizer& tokenizer, size_t size)
      : trie(std::make_shared<TokenTrie>(Sized(tokenizer.TokenBytes(), size))),
        drops_first_space(tokenizer.drops_first_space()) {
    for (uint32_t i = 0; i < trie->size(); i = trie->node(i).next) {
      if (trie->node(i).byte == ' ') space = i;
      if (trie->node(i).byte == static_cast<uint8_t>(kMarkByte)) mark = i;
    }
  }
  static std::vector<std::string> Sized(std::vector<std::string> bytes, size_t size) {
    bytes.resize(size);
    return bytes;
  }

  std::shared_ptr<const TokenTrie> trie;
  bool drops_first_space;
  uint32_t space = UINT32_MAX;  ///< the node of tokens that begin with a space
  uint32_t mark = UINT32_MAX;   ///< of those that begin with kMarkByte, which are no text
};

struct CompiledGrammar {
  CompiledGrammar(Rules rules, std::shared_ptr<const Vocabulary> words)
      : automaton(std::make_shared<Automaton>(std::move(rules), kMostCompileTime)),
        vocabulary(std::move(words)),
        masks(automaton, vocabulary->trie),
        places(automaton, vocabulary->trie, masks) {}
  size_t bytes() const {
    return automaton->bytes() + masks.bytes() + places.bytes() + size_t{64} * 1024;
  }

  const std::shared_ptr<const Automaton> automaton;
  const std::shared_ptr<const Vocabulary> vocabulary;
  mutable StateMasks masks;
  mutable AnswerPlaces places;
};

}  // namespace oort::grammar
