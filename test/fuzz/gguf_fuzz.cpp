// SPDX-License-Identifier: MIT
// Any bytes as a GGUF: an Error, or a model whose weights can all be read.
#include "harness.h"
#include "parser/gguf/gguf_checkpoint.h"
#include "tensor_reader.h"

volatile double g_sum;

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  try {
    std::vector<gguf::File> files;
    files.push_back(gguf::ReadFile(ByteSource::Memory(std::as_bytes(std::span(data, size)))));
    g_sum = fuzz::SumOfTensors(gguf::ReadContents(files));
    fuzz::CountWhole();
  } catch (const Error&) {
  }
  return 0;
}
