// SPDX-License-Identifier: MIT
#include "llm/experts_place.h"

#include <algorithm>
#include <string>

#include "cuda/device.h"
#include "cuda/memory.h"
#include "decoder/decoder_graph.h"
#include "oort/log.h"

namespace oort {
namespace {

bool IsMixture(const Operator& op) { return op.type == "oort.ExpertMixture"; }

}  // namespace

void PlaceExperts(Graph& graph, size_t free) {
  const size_t weights = WeightBytes(graph);
  if (FitWeights(weights, free)) return;
  for (Operator& op : graph.operators) {
    if (IsMixture(op)) op.params["on_host"] = Parameter::FromValue(Value(true));
  }
  log::Write(log::Level::kInfo,
             "experts are multiplied on the CPU: of " + std::to_string(free >> 20) +
                 " MiB that the GPU has free, nine tenths do not hold weights of " +
                 std::to_string(weights >> 20) + " MiB");
}

void PlaceExperts(Graph& graph, Device device) {
  if (device.type != DeviceType::kCuda || std::ranges::none_of(graph.operators, IsMixture)) return;
  std::string reason;
  // Building the graph says what is wrong with a device that is not there.
  if (static_cast<size_t>(device.index) >= cuda::Devices(&reason).size()) return;
  PlaceExperts(graph, cuda::MemoryOf(device.index).free);
}

}  // namespace oort
