// SPDX-License-Identifier: MIT
// A .param, followed by a zip or not: load it, and run it on small inputs. Only an Error may come
// out. Without a zip the weights are made up, so that mutations of the text alone reach far.
#include <cstring>

#include "harness.h"
#include "model_generator.h"
#include "oort/oort.h"
#include "param_mutator.h"

namespace {

using namespace oort;

constexpr int64_t kMaxElements = 1 << 16;
constexpr double kMaxFlops = 5e7;
constexpr size_t kMemory = size_t{64} << 20;

/// What a tensor is filled with.
enum class Filling { kZeros, kSmall, kLargest, kOnes, kSmallest };

/// Small numbers, some negative and out of range for an index; or the bits of the largest integers,
/// of -1 and NaN, of the smallest integers.
void Fill(Tensor& tensor, Filling filling) {
  if (tensor.dtype() == DType::kBool) {
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      tensor.data<bool>()[i] = filling == Filling::kSmall ? i % 2 == 0 : filling != Filling::kZeros;
    }
  } else if (filling == Filling::kSmall) {
    if (tensor.dtype() == DType::kC32) return;
    Tensor wide(DType::kF64, tensor.shape());
    for (int64_t i = 0; i < wide.elements(); ++i) {
      wide.data<double>()[i] = static_cast<double>(i % 7 - 2);
    }
    CopyElements(wide, tensor);
  } else if (filling != Filling::kZeros) {
    const size_t item = ItemSize(tensor.dtype());
    const int rest = filling == Filling::kSmallest ? 0 : 0xff;
    const int high = filling == Filling::kSmallest ? 0x80 : rest;
    for (size_t i = 0; i < tensor.bytes(); ++i) {
      const bool top = i % item == item - 1;
      tensor.raw()[i] = static_cast<std::byte>(filling == Filling::kLargest ? 0x7f
                                               : top                        ? high
                                                                            : rest);
    }
  }
}

Filling PickFilling(fuzz::Random& random) {
  static constexpr Filling kFillings[] = {Filling::kSmall,   Filling::kSmall,   Filling::kSmall,
                                          Filling::kZeros,   Filling::kLargest, Filling::kOnes,
                                          Filling::kSmallest};
  return random.Pick(kFillings);
}

/// Gives every attribute elements, unless they are too many.
bool FillAttributes(Graph& graph, fuzz::Random& random) {
  int64_t elements = 0;
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      if (tensor.elements() > kMaxElements) return false;
      elements += tensor.elements();
      if (elements > 4 * kMaxElements) return false;
      tensor = Tensor::Zeros(tensor.dtype(), tensor.shape());
      Fill(tensor, PickFilling(random));
    }
  }
  return true;
}

/// `unknown` stands where the model does not say an extent.
bool MakeInputs(const RuntimeGraph& graph, fuzz::Random& random, int64_t unknown,
                std::vector<Tensor>& inputs) {
  for (const Port& port : graph.inputs()) {
    Shape shape = port.shape;
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] == Shape::kUnknown) shape[i] = unknown;
    }
    const DType dtype = port.dtype == DType::kNull ? DType::kF32 : port.dtype;
    if (shape.elements() > kMaxElements) return false;
    inputs.push_back(Tensor::Zeros(dtype, shape));
    Fill(inputs.back(), PickFilling(random));
  }
  return inputs.size() < 16;
}

bool IsCheap(const RuntimeGraph& graph, const std::vector<Tensor>& inputs) {
  double flops = 0, bytes = 0;
  for (const NodeReport& node : graph.Plan(inputs).nodes) {
    flops += node.work.flops;
    bytes += node.work.bytes;
  }
  return flops <= kMaxFlops && bytes <= kMaxFlops;
}

void LoadAndRun(std::string param, std::string bin) {
  fuzz::Random random(fuzz::Hash(param));
  const LoadOptions options{.verify_checksums = false};
  std::shared_ptr<const RuntimeGraph> graph;
  if (bin.empty()) {
    Graph structure = ReadPnnxParam(*ByteSource::Owned(std::move(param)));
    if (!FillAttributes(structure, random)) return;
    graph = RuntimeGraph::Build(std::move(structure), options);
  } else {
    graph = RuntimeGraph::Load(*ByteSource::Owned(std::move(param)),
                               ByteSource::Owned(std::move(bin)), options);
  }
  Session session(graph, {.threads = 1, .memory_limit = kMemory});
  for (const int64_t unknown : {3, 5}) {  // a session meets inputs of different sizes
    std::vector<Tensor> inputs;
    if (!MakeInputs(*graph, random, unknown, inputs) || !IsCheap(*graph, inputs)) return;
    session.Run({inputs.begin(), inputs.end()});
  }
  fuzz::CountWhole();
}

size_t FindZip(const std::string& input) {
  return std::min({input.find("PK\3\4"), input.find("PK\5\6"), input.size()});
}

}  // namespace

oort::fuzz::Target oort::fuzz::MakeTarget() {
  static const LayerRegistry& registry = LayerRegistry::Global();
  static const ParamMutator mutator{TypeRing(registry.Types())};
  static const ModelGenerator generator(registry);
  Target target;
  target.mutate = [](const std::string& input, Random& random) {
    const size_t zip = FindZip(input);
    return mutator.Mutate(input.substr(0, zip), random) + input.substr(zip);
  };
  target.generators = registry.Types();
  target.generate = [](const std::string& type, Random& random) {
    const std::string text = generator.Generate(type, random);
    return random.OneIn(2) ? text : mutator.Mutate(text, random);
  };
  return target;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t zip = FindZip(input);
  try {
    LoadAndRun(input.substr(0, zip), input.substr(zip));
  } catch (const oort::Error&) {
  }
  return 0;
}
