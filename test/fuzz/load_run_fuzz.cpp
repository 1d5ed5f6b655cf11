// SPDX-License-Identifier: MIT
// A .param, followed by a zip or not: load it, and run it on small inputs. Only an Error may come
// out. Without a zip the weights are made up, so that mutations of the text alone reach far.
#include "oort/oort.h"

namespace {

using namespace oort;

constexpr int64_t kMaxElements = 1 << 16;
constexpr double kMaxFlops = 5e7;
constexpr size_t kMemory = size_t{64} << 20;

/// Gives every attribute elements, unless they are too many.
bool FillAttributes(Graph& graph) {
  int64_t elements = 0;
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      if (tensor.elements() > kMaxElements) return false;
      elements += tensor.elements();
      if (elements > 4 * kMaxElements) return false;
      tensor = Tensor::Zeros(tensor.dtype(), tensor.shape());
      std::byte* bytes = tensor.raw();
      const bool boolean = tensor.dtype() == DType::kBool;
      for (size_t i = 0; i < tensor.bytes(); ++i) {
        bytes[i] = static_cast<std::byte>(boolean ? i % 2 : i * 37 % 64);
      }
    }
  }
  return true;
}

bool MakeInputs(const RuntimeGraph& graph, std::vector<Tensor>& inputs) {
  for (const Port& port : graph.inputs()) {
    Shape shape = port.shape;
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] == Shape::kUnknown) shape[i] = 3;
    }
    const DType dtype = port.dtype == DType::kNull ? DType::kF32 : port.dtype;
    if (shape.elements() > kMaxElements) return false;
    inputs.push_back(Tensor::Zeros(dtype, shape));
  }
  return inputs.size() < 16;
}

void LoadAndRun(std::string param, std::string bin) {
  const LoadOptions options{.verify_checksums = false};
  std::shared_ptr<const RuntimeGraph> graph;
  if (bin.empty()) {
    Graph structure = ReadPnnxParam(*ByteSource::Owned(std::move(param)));
    if (!FillAttributes(structure)) return;
    graph = RuntimeGraph::Build(std::move(structure), options);
  } else {
    graph = RuntimeGraph::Load(*ByteSource::Owned(std::move(param)),
                               ByteSource::Owned(std::move(bin)), options);
  }
  std::vector<Tensor> inputs;
  if (!MakeInputs(*graph, inputs)) return;
  double flops = 0, bytes = 0;
  for (const NodeReport& node : graph->Plan(inputs).nodes) {
    flops += node.work.flops;
    bytes += node.work.bytes;
  }
  if (flops > kMaxFlops || bytes > kMaxFlops) return;
  Session session(graph, {.threads = 1, .memory_limit = kMemory});
  session.Forward(inputs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t zip = std::min({input.find("PK\3\4"), input.find("PK\5\6"), size});
  try {
    LoadAndRun(input.substr(0, zip), input.substr(zip));
  } catch (const oort::Error&) {
  }
  return 0;
}
