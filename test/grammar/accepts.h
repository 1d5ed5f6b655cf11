// SPDX-License-Identifier: MIT
// How tests ask a grammar about a text.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "grammar/automaton.h"
#include "grammar/machine.h"

namespace oort::grammar {

/// What a grammar says to a text that is read byte by byte.
class Acceptor {
 public:
  explicit Acceptor(Rules rules)
      : machine_(std::make_shared<Automaton>(std::move(rules), std::chrono::milliseconds(20000))) {}

  enum Answer { kDead, kOpen, kComplete };  ///< kOpen: only with more behind it
  Answer operator()(std::string_view text) {
    machine_.AllowWork();
    int32_t at = machine_.Begin();
    for (const char byte : text) at = machine_.Step(at, static_cast<uint8_t>(byte));
    if (at == Machine::kDead) return kDead;
    return machine_.complete(at) ? kComplete : kOpen;
  }
  bool Takes(std::string_view text) { return (*this)(text) == kComplete; }
  Machine& machine() { return machine_; }

 private:
  Machine machine_;
};

}  // namespace oort::grammar
