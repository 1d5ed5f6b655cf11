// SPDX-License-Identifier: MIT
// What becomes of weights while a RuntimeGraph is built: those that layers have packed are let go
// of, and the bytes of the others are counted.
#include <algorithm>

#include "core/host_memory.h"
#include "graph/open_attributes.h"
#include "runtime/builder.h"

namespace oort {
namespace {

/// The same tensor without its elements.
Tensor ShapeOf(const Tensor& tensor) { return Tensor::Meta(tensor.dtype(), tensor.shape()); }

}  // namespace

void GraphBuilder::ReleaseWeights(int index, Node& node) {
  if (options_.keep_weights) return;
  std::map<std::string, Tensor>& attributes =
      impl_->graph.operators[static_cast<size_t>(index)].attributes;
  const auto* open = dynamic_cast<const PacksOpenAttributes*>(node.layer.get());
  if (open != nullptr && open->PacksAttributes()) {
    for (auto& [name, tensor] : attributes) tensor = ShapeOf(tensor);
  }
  for (size_t i = 0; i < node.bound.args.size(); ++i) {
    BoundArg& arg = node.bound.args[i];
    const bool packed = arg.input < 0 && arg.value.IsTensor() && arg.value.AsTensor().has_data() &&
                        node.layer->Packs(static_cast<int>(i));
    if (!packed) continue;
    for (auto& [name, tensor] : attributes) {
      const Tensor& value = arg.value.AsTensor();
      if (tensor.buffer() == value.buffer() && tensor.offset() == value.offset()) {
        tensor = ShapeOf(tensor);
      }
    }
    arg.value = ShapeOf(arg.value.AsTensor());
  }
}

void GraphBuilder::ReleaseConstants(const std::set<int>& uploaded) {
  if (options_.keep_weights) return;
  std::vector<bool> read(impl_->constants.size(), false), packed(impl_->constants.size(), false);
  for (const Node& node : impl_->nodes) {
    std::vector<bool> packs(node.inputs.size(), false);
    for (size_t i = 0; i < node.bound.args.size(); ++i) {
      const int input = node.bound.args[i].input;
      if (input >= 0 && node.layer->Packs(static_cast<int>(i))) {
        packs[static_cast<size_t>(input)] = true;
      }
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      (packs[i] ? packed : read)[static_cast<size_t>(node.inputs[i])] = true;
    }
  }
  for (int slot : impl_->output_slots) read[static_cast<size_t>(slot)] = true;
  for (int slot : uploaded) packed[static_cast<size_t>(slot)] = true;
  for (Operator& op : impl_->graph.operators) {
    if (op.type != "pnnx.Attribute") continue;
    Value& constant = Constant(op.outputs[0]);
    const size_t slot = static_cast<size_t>(slot_of_[static_cast<size_t>(op.outputs[0])]);
    if (read[slot] || !packed[slot] || !constant.IsTensor()) continue;
    for (auto& [name, tensor] : op.attributes) tensor = ShapeOf(tensor);
    constant = ShapeOf(constant.AsTensor());
  }
}

void GraphBuilder::SettleLayers() {
  const int64_t bytes_before = ThreadHostBytes();
  for (Node& node : impl_->nodes) {
    WithOperator(impl_->OpOf(node), [&] { node.layer->Settle(); });
  }
  layer_bytes_ += ThreadHostBytes() - bytes_before;
}

void GraphBuilder::CountLoading() {
  const int64_t now = std::max<int64_t>(0, layer_bytes_) + attribute_bytes_;
  impl_->loading_bytes = std::max(impl_->loading_bytes, static_cast<size_t>(now));
}

void GraphBuilder::CountWeights() {
  std::map<const Buffer*, size_t> held;  // tensors that share elements count once
  const auto hold = [&](const Tensor& tensor) {
    if (tensor.has_data()) held[tensor.buffer().get()] = tensor.buffer()->size();
  };
  for (const Value& constant : impl_->constants) {
    if (constant.IsTensor()) hold(constant.AsTensor());
  }
  for (const Operator& op : impl_->graph.operators) {
    for (const auto& [name, tensor] : op.attributes) hold(tensor);
  }
  for (const auto& [slot, tensor] : impl_->device_constants) {
    impl_->device_weight_bytes += tensor.bytes();
  }
  impl_->weight_bytes = static_cast<size_t>(std::max<int64_t>(0, layer_bytes_));
  for (const auto& [buffer, bytes] : held) impl_->weight_bytes += bytes;
  impl_->loading_bytes = std::max(impl_->loading_bytes, impl_->weight_bytes);
  constexpr size_t kMuch = size_t{8} << 20;
  if (impl_->weight_bytes >= kMuch) TrimHostMemory();
  TrimPages();
}

}  // namespace oort
