// SPDX-License-Identifier: MIT
// Any text as a .param: an Error, or a graph that survives being written and read again.
#include <cstdlib>

#include "harness.h"
#include "oort/layer.h"
#include "oort/pnnx.h"
#include "param_mutator.h"

oort::fuzz::Target oort::fuzz::MakeTarget() {
  static const ParamMutator mutator{TypeRing(LayerRegistry::Global().Types())};
  Target target;
  target.mutate = [](const std::string& input, Random& random) {
    return mutator.Mutate(input, random);
  };
  return target;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  std::string text;
  try {
    const Graph graph =
        ReadPnnxParam(*ByteSource::Owned({reinterpret_cast<const char*>(data), size}));
    for (const Operator& op : graph.operators) {
      for (const auto& [key, parameter] : op.params) parameter.value();
    }
    text = PnnxParamText(graph);
  } catch (const Error&) {
    return 0;
  }
  // What was written must be read without complaint, and come out the same.
  if (PnnxParamText(ReadPnnxParam(*ByteSource::Owned(text))) != text) std::abort();
  oort::fuzz::CountWhole();
  return 0;
}
