// SPDX-License-Identifier: MIT
// Any bytes as the .bin of a fixed model: an Error, or attributes whose bytes can be read.
#include "harness.h"
#include "oort/pnnx.h"

volatile int g_sum;  // so that reading the bytes is not optimized away

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  const auto param = ByteSource::Owned(
      "7767517\n1 1\npnnx.Attribute w 0 1 0 @a=(2,3)f32 @b=(5)bool @c=()i64 @d=(0)f32\n");
  const auto bin = ByteSource::Memory(std::as_bytes(std::span(data, size)));
  const auto copying = ByteSource::Reader(
      size, [&](uint64_t offset, std::span<std::byte> to) { bin->ReadAt(offset, to); });
  int sum = 0;
  for (const bool verify : {true, false}) {
    for (const auto& source : {bin, copying}) {
      try {
        const Graph graph = ReadPnnx(*param, source, {.verify_checksums = verify});
        for (const auto& [name, tensor] : graph.operators[0].attributes) {
          for (size_t i = 0; i < tensor.bytes(); ++i) sum += static_cast<int>(tensor.raw()[i]);
        }
        for (const bool b : graph.operators[0].attributes.at("b").span<bool>()) sum += b;
        oort::fuzz::CountWhole();
      } catch (const Error&) {
      }
    }
  }
  g_sum = sum;
  return 0;
}
