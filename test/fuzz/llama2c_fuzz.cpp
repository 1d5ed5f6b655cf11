// SPDX-License-Identifier: MIT
// Any bytes as a checkpoint of llama2.c: an Error, or a model whose weights can all be read.
#include "harness.h"
#include "tensor_reader.h"

volatile double g_sum;

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  const auto source = ByteSource::Memory(std::as_bytes(std::span(data, size)));
  if (!LooksLikeLlama2c(*source)) return 0;
  try {
    g_sum = fuzz::SumOfTensors(ReadLlama2c(source));
    fuzz::CountWhole();
  } catch (const Error&) {
  }
  return 0;
}
