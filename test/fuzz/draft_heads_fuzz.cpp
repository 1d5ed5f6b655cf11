// SPDX-License-Identifier: MIT
// A line as config.json and the bytes behind it as medusa_lm_head.safetensors: an Error, or heads
// for a model of 4 numbers and 6 tokens.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "decoder/draft_heads.h"
#include "harness.h"

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), size);
  const std::string_view weights = input.substr(std::min(line + 1, size));
  try {
    const DraftHeadsFiles files = ReadDraftHeads(
        input.substr(0, line), ByteSource::Memory(std::as_bytes(std::span(weights))));
    const Graph graph = BuildDraftHeads(files, 4, 6);
    const Operator& output = graph.operators[static_cast<size_t>(graph.OutputOperators().at(0))];
    if (std::ssize(output.inputs) != files.heads) std::abort();
    fuzz::CountWhole();
  } catch (const Error&) {
  }
  return 0;
}
