// SPDX-License-Identifier: MIT
// Any text as a GBNF grammar, a regular expression, a JSON Schema or an answer with tool calls, as
// its first byte says: an Error or an automaton that can be run, nothing else.
#include <algorithm>
#include <memory>
#include <string_view>

#include "grammar/automaton.h"
#include "grammar/machine.h"
#include "grammar/sources.h"
#include "harness.h"
#include "oort/error.h"
#include "oort/tool_calls.h"

namespace {

oort::grammar::Rules Read(char kind, std::string_view text) {
  switch (kind) {
    case 'r': return oort::grammar::ReadRegex(text);
    case 's': return oort::grammar::ReadJsonSchema(text);
    case 't': return oort::grammar::ReadToolCalls(text);
    default: return oort::grammar::ReadGbnf(text);
  }
}

/// Reads some bytes that may follow, one after the other.
void Walk(oort::grammar::Rules rules) {
  using oort::grammar::Machine;
  Machine machine(std::make_shared<oort::grammar::Automaton>(std::move(rules),
                                                             oort::grammar::kMostCompileTime));
  int32_t at = machine.Begin();
  for (int i = 0; i < 64; ++i) {
    int32_t next = Machine::kDead;
    for (int k = 0; k < 256 && next == Machine::kDead; ++k) {
      next = machine.Step(at, static_cast<uint8_t>(97 * (i + k)));
    }
    // Every place that can be reached leads to an end, so something follows until it is there.
    if (next == Machine::kDead && !machine.complete(at)) __builtin_trap();
    if (next == Machine::kDead) break;
    at = next;
  }
}

void TakeApart(std::string_view text) {
  for (const auto style :
       {oort::ToolStyle::kHermes, oort::ToolStyle::kLlama3, oort::ToolStyle::kMistral}) {
    oort::AnswerParser parser({.tools = style, .reasoning = true});
    for (size_t at = 0; at < text.size(); at += 3) parser.Push(text.substr(at, 3));
    parser.Finish();
  }
}

}  // namespace

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), std::min<size_t>(size, 4096));
  try {
    if (text[0] == 'a') {
      TakeApart(text.substr(1));
    } else {
      Walk(Read(text[0], text.substr(1)));
    }
    oort::fuzz::CountWhole();
  } catch (const oort::Error&) {
    // Refused, as it should be.
  }
  return 0;
}
