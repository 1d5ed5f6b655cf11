// SPDX-License-Identifier: MIT
// A GGUF, or a line as adapter_config.json and the bytes behind it as adapter_model.safetensors: an
// Error, or an adapter whose matrices fit together.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "harness.h"
#include "parser/adapter/adapter.h"

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto memory = [](std::string_view bytes) {
    return ByteSource::Memory(std::as_bytes(std::span(bytes)));
  };
  try {
    LoraAdapter adapter;
    if (input.starts_with("GGUF")) {
      adapter = ReadGgufAdapter(memory(input));
    } else {
      const size_t line = std::min(input.find('\n'), size);
      adapter =
          ReadPeftAdapter(input.substr(0, line), *memory(input.substr(std::min(line + 1, size))));
    }
    for (const auto& [name, matrices] : adapter.weights) {
      if (matrices.down.dim(0) != matrices.up.dim(1)) std::abort();
    }
    fuzz::CountWhole();
  } catch (const Error&) {
  }
  return 0;
}
