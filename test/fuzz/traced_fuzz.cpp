// SPDX-License-Identifier: MIT
// Any text as the .param of a traced decoder: an Error, or a decoder that can be loaded and run.
// Weights are zeros, masks causal and cosines ones, so that traces are whole as long as their text
// is.
#include <cstdlib>

#include "decoder/traced.h"
#include "harness.h"
#include "oort/kv_cache.h"
#include "oort/layer.h"
#include "oort/pnnx.h"
#include "oort/session.h"
#include "param_mutator.h"

namespace oort::fuzz {
namespace {

constexpr int64_t kMostElements = 1 << 16;

void FillAttribute(const Operator& op, Tensor& tensor) {
  const Shape shape = tensor.shape();
  if (!shape.IsKnown() || shape.elements() > kMostElements) {
    throw Error(ErrorCode::kLimit, "an attribute of " + shape.ToString());
  }
  tensor = Tensor::Zeros(tensor.dtype(), shape);
  if (op.type != "pnnx.Attribute") return;
  const int64_t width = shape.rank() > 0 ? shape[shape.rank() - 1] : 1;
  const bool mask = op.name.find("mask") != std::string::npos;
  const bool cosine = op.name.find("cos") != std::string::npos;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const bool later = i % width > i / width;
    if (tensor.dtype() == DType::kBool) tensor.data<bool>()[i] = mask && !later;
    if (tensor.dtype() != DType::kF32) continue;
    if (cosine) tensor.data<float>()[i] = 1;
    if (mask && later) tensor.data<float>()[i] = -1e9f;
  }
}

/// Two steps of one sequence.
void RunDecoder(TracedDecoder decoder) {
  if (decoder.layers * decoder.kv_heads * decoder.head_dim > kMostElements) return;
  KvCache cache({decoder.layers, decoder.kv_heads, decoder.head_dim, KvType::kF32}, 1);
  Session session(RuntimeGraph::Build(std::move(decoder.graph)));
  const std::vector<int32_t> blocks = {0};
  for (const int32_t first : {0, 2}) {
    const SequenceSlice slice{0, 2, first, blocks};
    const SequenceBatch batch{{&slice, 1}, &cache};
    RunOptions options;
    options.state = &batch;
    const std::vector<Tensor> inputs = {Tensor::From<int32_t>({0, 0}, Shape{2}),
                                        Tensor::From<int32_t>({first, first + 1}, Shape{2}),
                                        Tensor::From<int32_t>({1}, Shape{1})};
    session.Forward(inputs, options);
  }
}

}  // namespace

Target MakeTarget() {
  static const ParamMutator mutator{TypeRing(LayerRegistry::Global().Types())};
  Target target;
  target.mutate = [](const std::string& input, Random& random) {
    return mutator.Mutate(input, random);
  };
  return target;
}

}  // namespace oort::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  try {
    Graph graph = ReadPnnxParam(*ByteSource::Owned({reinterpret_cast<const char*>(data), size}));
    for (Operator& op : graph.operators) {
      for (auto& [name, tensor] : op.attributes) fuzz::FillAttribute(op, tensor);
    }
    TracedDecoder decoder = MakeDecoder(graph);
    if (!decoder.graph.Check().empty()) std::abort();
    fuzz::CountWhole();
    fuzz::RunDecoder(std::move(decoder));
  } catch (const Error&) {
  }
  return 0;
}
