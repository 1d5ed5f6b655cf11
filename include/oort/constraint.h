// SPDX-License-Identifier: MIT
// What an answer may say: which tokens may follow those that it has.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace oort {

/// An automaton that reads an answer token by token: a grammar, a schema, a list of choices. Tokens
/// that end answers are the Engine's: it allows them where done() says so, and hands no constraint
/// one of them. Thread contract: one thread at a time; several may Clone one that nobody changes.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// Sets bit t % 32 of bits[t / 32] for every token t that may come next. They come all clear,
  /// enough for all tokens of the model; what is set for a token that ends answers does not count.
  virtual void Mask(std::span<uint32_t> bits) = 0;
  /// Reads one more token. False where it may not come next: then nothing has changed.
  virtual bool Accept(int32_t token) = 0;
  /// Whether what was read is complete, so that the answer may end here. Where it is and no token
  /// may follow, the answer ends.
  virtual bool done() const = 0;
  /// Another one in the same state: for another answer that has the same tokens so far.
  virtual std::unique_ptr<TokenConstraint> Clone() const = 0;
};

}  // namespace oort
