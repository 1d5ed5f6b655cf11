// SPDX-License-Identifier: MIT
#include "runtime/placement.h"

#include <algorithm>

namespace oort {
namespace {

Value CopyShape(const Value& value) {
  if (value.IsTensor()) return Tensor::Meta(value.AsTensor().dtype(), value.AsTensor().shape());
  if (!value.IsList()) return value;
  Value::List shapes;
  for (const Value& item : value.AsList()) shapes.push_back(CopyShape(item));
  return shapes;
}

/// Tells the shape; the session does the copying itself. Numbers pass through.
class CopyLayer final : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override { return {CopyShape(args[0])}; }
  void Forward(const Context&, const Args&, std::span<Value>) const override {}
};

bool TakesTensor(ArgType type) { return type == ArgType::kTensor || type == ArgType::kAny; }

/// Whether a layer wants input `index` on its device; numbers it reads on the host.
bool WantsOnDevice(const Node& node, size_t index) {
  if (!node.OnDevice()) return false;
  const std::vector<ArgSpec>& specs = node.schema->args();
  for (size_t i = 0; i < node.bound.args.size(); ++i) {
    if (node.bound.args[i].input == static_cast<int>(index)) return TakesTensor(specs[i].type);
  }
  return true;
}

bool PacksInput(const Node& node, size_t index) {
  for (size_t i = 0; i < node.bound.args.size(); ++i) {
    if (node.bound.args[i].input == static_cast<int>(index)) {
      return node.layer->Packs(static_cast<int>(i));
    }
  }
  return false;
}

class Placer {
 public:
  Placer(RuntimeImpl& graph, std::vector<int>& slot_of, DeviceBackend& backend)
      : impl_(graph), slot_of_(slot_of), backend_(backend) {
    on_device_.assign(impl_.constants.size(), false);
    operand_of_.assign(impl_.constants.size(), -1);
    for (size_t i = 0; i < slot_of.size(); ++i) {
      if (slot_of[i] >= 0) operand_of_[static_cast<size_t>(slot_of[i])] = static_cast<int>(i);
    }
    for (const Node& node : impl_.nodes) {
      for (int i = 0; i < node.output_count; ++i) {
        on_device_[static_cast<size_t>(node.first_output + i)] = node.OnDevice();
      }
    }
    to_device_schema_ = CopySchema(kToDeviceType);
    to_host_schema_ = CopySchema(kToHostType);
  }

  std::set<int> Run() {
    std::vector<Node> nodes = std::move(impl_.nodes);
    for (Node& node : nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) MoveInput(node, i);
      body_.push_back(std::move(node));
    }
    MoveResults();
    impl_.nodes = std::move(front_);
    std::move(body_.begin(), body_.end(), std::back_inserter(impl_.nodes));
    return uploaded_;
  }

 private:
  static std::shared_ptr<const OperatorSchema> CopySchema(std::string_view type) {
    return std::make_shared<const OperatorSchema>(
        OperatorSchema({std::string(type)}, "copies between host and device").Any("input"));
  }

  void MoveInput(Node& node, size_t index) {
    if (node.layer->Traits().shapes_only) return;
    const int slot = node.inputs[index];
    const bool wanted = WantsOnDevice(node, index);
    if (impl_.IsConstant(slot)) {
      const bool tensor = impl_.constants[static_cast<size_t>(slot)].IsTensor();
      if (wanted && tensor && !PacksInput(node, index)) node.inputs[index] = UploadedSlot(slot);
      return;
    }
    if (on_device_[static_cast<size_t>(slot)] == wanted) return;
    const int copy = CopiedSlot(slot, wanted);
    node.inputs[index] = copy;
    impl_.graph.ReplaceInput(node.op, index, operand_of_[static_cast<size_t>(copy)]);
  }

  /// Results are the caller's, on the host.
  void MoveResults() {
    std::vector<std::pair<int, int>> moved;  // operands
    for (int& slot : impl_.output_slots) {
      if (!on_device_[static_cast<size_t>(slot)]) continue;
      const int copy = CopiedSlot(slot, false);
      moved.emplace_back(operand_of_[static_cast<size_t>(slot)],
                         operand_of_[static_cast<size_t>(copy)]);
      slot = copy;
    }
    const std::vector<int> output_operators = impl_.graph.OutputOperators();
    for (int index : output_operators) {
      const std::vector<int> inputs = impl_.graph.operators[static_cast<size_t>(index)].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto found = std::find_if(moved.begin(), moved.end(),
                                        [&](const auto& pair) { return pair.first == inputs[i]; });
        if (found != moved.end()) impl_.graph.ReplaceInput(index, i, found->second);
      }
    }
    for (size_t i = 0; i < impl_.output_slots.size(); ++i) {
      const int operand = operand_of_[static_cast<size_t>(impl_.output_slots[i])];
      const bool copied =
          std::ranges::any_of(moved, [&](const auto& pair) { return pair.second == operand; });
      const auto& readers = impl_.graph.operands[static_cast<size_t>(operand)].consumers;
      const bool for_callers = std::ranges::all_of(readers, [&](int reader) {
        return std::ranges::find(output_operators, reader) != output_operators.end();
      });
      if (copied && for_callers) impl_.outputs[i].device = impl_.device;
    }
  }

  int NewSlot(const std::string& name, int operand, bool on_device) {
    const int slot = impl_.slots();
    impl_.constants.push_back(Value::Deferred());
    impl_.slot_names.push_back(name);
    operand_of_.push_back(operand);
    on_device_.push_back(on_device);
    return slot;
  }

  int UploadedSlot(int slot) {
    const auto found = copies_.find({slot, true});
    if (found != copies_.end()) return found->second;
    const Tensor host = impl_.constants[static_cast<size_t>(slot)].AsTensor();
    const int copy = NewSlot(impl_.slot_names[static_cast<size_t>(slot)],
                             operand_of_[static_cast<size_t>(slot)], true);
    // Shape inference may look into small ones (indices, sizes); large ones are not kept twice.
    constexpr size_t kSmall = size_t{64} << 10;
    impl_.constants[static_cast<size_t>(copy)] =
        host.bytes() <= kSmall ? host : Tensor::Meta(host.dtype(), host.shape());
    impl_.device_constants[copy] = backend_.Upload(host);
    uploaded_.insert(slot);
    copies_[{slot, true}] = copy;
    return copy;
  }

  int CopiedSlot(int slot, bool to_device) {
    const auto found = copies_.find({slot, to_device});
    if (found != copies_.end()) return found->second;
    const int from = operand_of_[static_cast<size_t>(slot)];
    const std::string name = impl_.slot_names[static_cast<size_t>(slot)];
    Operator op;
    op.type = std::string(to_device ? kToDeviceType : kToHostType);
    op.name = (to_device ? "to_device_" : "to_host_") + name;
    const int operand =
        impl_.graph.AddOperatorOn(from, std::move(op), name + (to_device ? ".device" : ".host"));
    Node node;
    node.op = impl_.graph.operands[static_cast<size_t>(operand)].producer;
    const int copy =
        NewSlot(impl_.graph.operands[static_cast<size_t>(operand)].name, operand, to_device);
    slot_of_.resize(impl_.graph.operands.size(), -1);
    slot_of_[static_cast<size_t>(operand)] = copy;
    node.schema = to_device ? to_device_schema_ : to_host_schema_;
    node.bound.args = {BoundArg{0, {}}};
    node.layer = std::make_unique<CopyLayer>();
    node.inputs = {slot};
    node.first_output = copy;
    node.output_count = 1;
    if (to_device) node.device = impl_.device;
    node.copy = to_device ? Node::kToDevice : Node::kToHost;
    const bool of_input = std::find(impl_.input_slots.begin(), impl_.input_slots.end(), slot) !=
                          impl_.input_slots.end();
    (of_input ? front_ : body_).push_back(std::move(node));
    copies_[{slot, to_device}] = copy;
    return copy;
  }

  RuntimeImpl& impl_;
  std::vector<int>& slot_of_;
  DeviceBackend& backend_;
  std::shared_ptr<const OperatorSchema> to_device_schema_, to_host_schema_;
  std::vector<bool> on_device_;  // by slot
  std::vector<int> operand_of_;  // by slot
  std::map<std::pair<int, bool>, int> copies_;
  std::set<int> uploaded_;
  std::vector<Node> front_, body_;
};

}  // namespace

std::set<int> PlaceCopies(RuntimeImpl& graph, std::vector<int>& slot_of, DeviceBackend& backend) {
  return Placer(graph, slot_of, backend).Run();
}

}  // namespace oort
