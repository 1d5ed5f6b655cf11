// SPDX-License-Identifier: MIT
// Any text as a chat template: an Error or a text, within small limits, nothing else.
#include <string_view>

#include "harness.h"
#include "oort/chat_template.h"
#include "oort/error.h"

namespace {

oort::ChatInputs MakeInputs() {
  oort::ChatInputs inputs;
  inputs.messages = R"([{"role": "system", "content": "Be kind."},
    {"role": "user", "content": " Grüße, \"Welt\" <b>\n", "n": [1, 2.5, null, true, -3]},
    {"role": "assistant", "content": "<think>x</think>yes", "tool_calls":
      [{"id": "a", "function": {"name": "f", "arguments": {"x": 1, "y": ["z"]}}}]}])";
  inputs.tools =
      R"([{"type": "function", "function": {"name": "f", "parameters": {"b": {}, "a": 1e-7}}}])";
  inputs.variables = R"({"bos_token": "<s>", "s": "Hello ΑΣ", "l": [3, 1, 2], "d": {"b": 1, "a": 2},
    "big": 123456789012345678901234567890, "n": 7, "f": 2.5})";
  inputs.now = oort::ChatTime{2024, 7, 26, 15, 4, 5};
  return inputs;
}

}  // namespace

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const oort::ChatInputs inputs = MakeInputs();
  const oort::ChatLimits limits{20000, 1 << 16, 1 << 20};
  const std::string_view text(reinterpret_cast<const char*>(data), std::min<size_t>(size, 8192));
  try {
    oort::ChatTemplate::Parse(text).Render(inputs, limits);
    oort::fuzz::CountWhole();
  } catch (const oort::Error&) {
    // Refused, as it should be.
  }
  return 0;
}
