// SPDX-License-Identifier: MIT
// A line as config.json, the bytes behind it as model.safetensors: an Error, or a model whose
// weights can all be read.
#include <string_view>

#include "harness.h"
#include "parser/huggingface/config.h"
#include "parser/huggingface/tensors.h"
#include "tensor_reader.h"

volatile double g_sum;

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), size);
  const std::string_view weights = input.substr(std::min(line + 1, size));
  CheckpointContents contents;
  try {
    contents.config = ReadDecoderConfig(input.substr(0, line));
  } catch (const Error&) {
    contents.config.layers = 1;  // whatever the config: the container is read
  }
  huggingface::Quantization quantization;
  try {
    const json::Json config = json::Parse(input.substr(0, line), "fuzz");
    quantization = huggingface::ReadQuantization(json::Object(config, "fuzz"));
  } catch (const Error&) {  // plain weights, then
  }
  try {
    huggingface::ReadSingle(ByteSource::Memory(std::as_bytes(std::span(weights))), contents,
                            quantization);
    CheckTensors(contents.config, contents.tensors, "fuzz");
    g_sum = fuzz::SumOfTensors(contents);
    fuzz::CountWhole();
  } catch (const Error&) {
  }
  return 0;
}
