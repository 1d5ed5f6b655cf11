// SPDX-License-Identifier: MIT
#include "runtime/plan.h"

#include <algorithm>

#include "core/checked.h"
#include "runtime/arena.h"
#include "runtime/runtime_impl.h"

namespace oort {
namespace {

constexpr int kForever = INT32_MAX;

/// Memory that one or more slots share: an operator's result, its views, and what is computed
/// in place of it.
struct Storage {
  Placement::Kind kind = Placement::kArena;
  int owner = 0;  ///< the slot whose node allocates it
  size_t size = 0;
  int first = 0;
  int last = 0;
  int output = -1;  ///< number of the result that lives here
  bool on_device = false;
};

bool HoldsTensors(const Value& value) {
  if (value.IsTensor()) return true;
  if (!value.IsList()) return false;
  return std::any_of(value.AsList().begin(), value.AsList().end(), HoldsTensors);
}

class Planner {
 public:
  Planner(const RuntimeImpl& graph, const std::vector<Value>& inputs, int threads)
      : graph_(graph), threads_(threads) {
    const size_t slots = static_cast<size_t>(graph.slots());
    plan_.inputs.reserve(inputs.size());
    for (const Value& input : inputs) plan_.inputs.push_back(Meta(input));
    plan_.specs = graph.constants;
    plan_.placements.resize(slots);
    plan_.steps.resize(graph.nodes.size());
    storage_of_.assign(slots, -1);
    offset_in_.assign(slots, 0);
    for (size_t i = 0; i < inputs.size(); ++i) {
      plan_.specs[static_cast<size_t>(graph.input_slots[i])] = plan_.inputs[i];
    }
    args_ = ArgTable(graph, plan_.specs);
    FindLastUses();
    for (int slot = 0; slot < graph.slots(); ++slot) {
      if (plan_.specs[static_cast<size_t>(slot)].IsTensor()) {
        AddStorage(slot, Placement::kInput, 0, -1, graph.device_constants.count(slot) != 0);
      }
    }
  }

  ExecutionPlan Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) PlanNode(static_cast<int>(i));
    AssignOutputs();
    PlaceStorages();
    ReleaseDynamic();
    ListBound();
    return std::move(plan_);
  }

 private:
  /// Planning never looks at elements, so that a plan does not keep the caller's memory alive.
  static Value Meta(const Value& value) {
    if (!value.IsTensor()) return value;
    return Tensor::Meta(value.AsTensor().dtype(), value.AsTensor().shape());
  }

  void FindLastUses() {
    last_use_.assign(static_cast<size_t>(graph_.slots()), -1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (int slot : graph_.nodes[i].inputs) {
        last_use_[static_cast<size_t>(slot)] = static_cast<int>(i);
      }
    }
    for (int slot : graph_.output_slots) last_use_[static_cast<size_t>(slot)] = kForever;
  }

  int AddStorage(int slot, Placement::Kind kind, size_t size, int step, bool on_device) {
    const int index = static_cast<int>(storages_.size());
    storages_.push_back({kind, slot, size, step, step, -1, on_device});
    Join(slot, index, 0);
    return index;
  }

  void Join(int slot, int storage, size_t offset) {
    storage_of_[static_cast<size_t>(slot)] = storage;
    offset_in_[static_cast<size_t>(slot)] = offset;
    Storage& shared = storages_[static_cast<size_t>(storage)];
    shared.last = std::max(shared.last, last_use_[static_cast<size_t>(slot)]);
  }

  void PlanNode(int index) {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    Step& step = plan_.steps[static_cast<size_t>(index)];
    const Args args = args_[static_cast<size_t>(index)];
    const bool waits = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int slot) {
      return plan_.specs[static_cast<size_t>(slot)].IsDeferred();
    });
    std::vector<Value> outputs;
    if (waits) {
      outputs.assign(static_cast<size_t>(node.output_count), Value::Deferred());
    } else {
      outputs = InferNode(graph_, node, args);
    }
    const bool dynamic = std::any_of(outputs.begin(), outputs.end(), [](const Value& value) {
      return value.IsDeferred() || (value.IsList() && HoldsTensors(value));
    });
    for (int i = 0; i < node.output_count; ++i) {
      plan_.specs[static_cast<size_t>(node.first_output + i)] =
          dynamic ? Value::Deferred() : std::move(outputs[static_cast<size_t>(i)]);
    }
    if (dynamic) {
      PlanDynamic(node, step);
    } else {
      PlanStatic(index, node, step, args);
    }
  }

  /// Its outputs are allocated at run time and may share the memory of its inputs in ways that
  /// only the layer knows, so these stay to the end.
  void PlanDynamic(const Node& node, Step& step) {
    step.kind = Step::kDynamic;
    for (int i = 0; i < node.output_count; ++i) {
      plan_.placements[static_cast<size_t>(node.first_output + i)].kind = Placement::kDynamic;
    }
    for (int slot : node.inputs) {
      const int storage = storage_of_[static_cast<size_t>(slot)];
      if (storage >= 0) storages_[static_cast<size_t>(storage)].last = kForever;
    }
  }

  void PlanStatic(int index, const Node& node, Step& step, const Args& args) {
    const std::vector<Reuse> reuses = node.layer->Reuses(args);
    bool nothing_to_run = true;
    for (int i = 0; i < node.output_count; ++i) {
      const int slot = node.first_output + i;
      const Value& spec = plan_.specs[static_cast<size_t>(slot)];
      if (!spec.IsTensor()) continue;
      const size_t bytes = spec.AsTensor().bytes();
      plan_.bytes_without_reuse = CheckedAdd(plan_.bytes_without_reuse, bytes);
      if (ShareView(node, reuses, i, bytes, step)) continue;
      nothing_to_run = false;
      if (!ShareInPlace(index, node, reuses, i, bytes, step)) {
        AddStorage(slot, Placement::kArena, bytes, index, node.OnDevice());
      }
    }
    if (nothing_to_run) {
      step.kind = Step::kSkip;
      return;
    }
    step.workspace_size = node.layer->Workspace(args, threads_);
    plan_.largest_workspace = std::max(plan_.largest_workspace, step.workspace_size);
  }

  /// The slot of an argument, or -1 if it is no input.
  static int SlotOfArgument(const Node& node, int argument) {
    const size_t index = static_cast<size_t>(argument), named = node.bound.args.size();
    int input = -1;
    if (index < named) {
      input = node.bound.args[index].input;
    } else if (index - named < node.bound.variadic.size()) {
      input = node.bound.variadic[index - named];
    }
    return input < 0 ? -1 : node.inputs[static_cast<size_t>(input)];
  }

  /// What the outputs of a node may share with a slot, or -1: not what is on another device.
  int SharedStorage(const Node& node, int slot) const {
    const int storage = slot < 0 ? -1 : storage_of_[static_cast<size_t>(slot)];
    if (storage < 0) return -1;
    return storages_[static_cast<size_t>(storage)].on_device == node.OnDevice() ? storage : -1;
  }

  bool ShareView(const Node& node, const std::vector<Reuse>& reuses, int output, size_t bytes,
                 Step& step) {
    for (const Reuse& reuse : reuses) {
      if (reuse.kind != Reuse::kView || reuse.output != output) continue;
      const int source = SlotOfArgument(node, reuse.argument);
      const int storage = SharedStorage(node, source);
      if (storage < 0) continue;
      const Tensor& viewed = plan_.specs[static_cast<size_t>(source)].AsTensor();
      if (!InRange(reuse.offset, bytes, viewed.bytes())) {
        throw Error(ErrorCode::kInternal, graph_.OpOf(node).Describe() + ": a view out of range");
      }
      Join(node.first_output + output, storage,
           offset_in_[static_cast<size_t>(source)] + reuse.offset);
      step.sharing = "view of " + graph_.slot_names[static_cast<size_t>(source)];
      return true;
    }
    return false;
  }

  bool ShareInPlace(int index, const Node& node, const std::vector<Reuse>& reuses, int output,
                    size_t bytes, Step& step) {
    for (const Reuse& reuse : reuses) {
      if (reuse.kind != Reuse::kInPlace || reuse.output != output) continue;
      const int source = SlotOfArgument(node, reuse.argument);
      const int storage = SharedStorage(node, source);
      if (storage < 0) continue;
      const Storage& shared = storages_[static_cast<size_t>(storage)];
      // Legal only if nobody reads the old elements later, and through no other input now.
      const bool last_reader = shared.kind == Placement::kArena && shared.last <= index;
      const bool whole = shared.size == bytes && offset_in_[static_cast<size_t>(source)] == 0 &&
                         plan_.specs[static_cast<size_t>(source)].AsTensor().bytes() == bytes;
      if (!last_reader || !whole || ReadsStorageTwice(node, storage)) continue;
      Join(node.first_output + output, storage, 0);
      step.sharing = "in place of " + graph_.slot_names[static_cast<size_t>(source)];
      return true;
    }
    return false;
  }

  bool ReadsStorageTwice(const Node& node, int storage) const {
    return std::count_if(node.inputs.begin(), node.inputs.end(), [&](int slot) {
             return storage_of_[static_cast<size_t>(slot)] == storage;
           }) > 1;
  }

  /// A result lives in memory of its own from the start, unless it is part of something else.
  void AssignOutputs() {
    const size_t count = graph_.output_slots.size();
    plan_.direct_outputs.assign(count, false);
    for (size_t i = 0; i < count; ++i) {
      const size_t slot = static_cast<size_t>(graph_.output_slots[i]);
      const Value& spec = plan_.specs[slot];
      if (!spec.IsTensor()) continue;
      const size_t bytes = spec.AsTensor().bytes();
      plan_.output_bytes = CheckedAdd(plan_.output_bytes, bytes);
      const int index = storage_of_[slot];
      if (index < 0) continue;
      Storage& storage = storages_[static_cast<size_t>(index)];
      if (storage.kind != Placement::kArena || storage.output >= 0 || storage.on_device) continue;
      if (storage.size != bytes || offset_in_[slot] != 0) continue;
      storage.kind = Placement::kOutput;
      storage.output = static_cast<int>(i);
      plan_.direct_outputs[i] = true;
    }
  }

  void PlaceStorages() {
    base_.assign(storages_.size(), 0);
    plan_.arena_size = PlaceArena(false);
    plan_.device_arena_size = PlaceArena(true);
    for (size_t slot = 0; slot < plan_.placements.size(); ++slot) {
      if (storage_of_[slot] < 0) continue;
      const size_t index = static_cast<size_t>(storage_of_[slot]);
      const Storage& storage = storages_[index];
      const int number = storage.kind == Placement::kOutput ? storage.output : storage.owner;
      plan_.placements[slot] = {storage.kind, base_[index] + offset_in_[slot], number,
                                storage.on_device};
    }
  }

  /// Lays out the arena of the host or of the device; returns its size.
  size_t PlaceArena(bool on_device) {
    std::vector<ArenaRequest> requests;
    std::vector<size_t> owners;  // storages, then steps
    for (size_t i = 0; i < storages_.size(); ++i) {
      const Storage& storage = storages_[i];
      if (storage.kind != Placement::kArena || storage.on_device != on_device) continue;
      owners.push_back(i);
      requests.push_back({storage.size, storage.first, std::max(storage.first, storage.last)});
    }
    const size_t storage_requests = requests.size();
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const size_t scratch = plan_.steps[i].workspace_size;
      if (scratch == 0 || graph_.nodes[i].OnDevice() != on_device) continue;
      owners.push_back(i);
      requests.push_back({scratch, static_cast<int>(i), static_cast<int>(i)});
    }
    const ArenaLayout layout = PlaceInArena(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const bool scratch = i >= storage_requests;
      const int owner = scratch ? static_cast<int>(owners[i]) : storages_[owners[i]].owner;
      const int last = std::min(requests[i].last, static_cast<int>(plan_.steps.size()) - 1);
      plan_.blocks.push_back({owner, scratch, layout.offsets[i], requests[i].size,
                              requests[i].first, last, on_device});
      if (scratch) {
        plan_.steps[owners[i]].workspace_offset = layout.offsets[i];
      } else {
        base_[owners[i]] = layout.offsets[i];
      }
    }
    if (!on_device) plan_.arena_bound = MostAtOnce(requests);
    return layout.size;
  }

  /// What was allocated at run time is given back after its last reader.
  void ReleaseDynamic() {
    for (size_t slot = 0; slot < plan_.placements.size(); ++slot) {
      const int last = last_use_[slot];
      if (plan_.placements[slot].kind != Placement::kDynamic || last < 0 || last == kForever) {
        continue;
      }
      plan_.steps[static_cast<size_t>(last)].release.push_back(static_cast<int>(slot));
    }
  }

  void ListBound() {
    for (int slot = 0; slot < graph_.slots(); ++slot) {
      const Placement& place = plan_.placements[static_cast<size_t>(slot)];
      if (place.kind == Placement::kOutput) plan_.output_slots.push_back(slot);
      if (place.kind == Placement::kInput && place.index != slot) plan_.input_views.push_back(slot);
      const bool owned = place.kind == Placement::kArena || place.kind == Placement::kNone;
      if (!owned && !graph_.IsConstant(slot)) plan_.borrowed.push_back(slot);
    }
  }

  const RuntimeImpl& graph_;
  int threads_;
  ExecutionPlan plan_;
  ArgTable args_;
  std::vector<int> last_use_;      // by slot: the last node that reads it
  std::vector<int> storage_of_;    // by slot
  std::vector<size_t> offset_in_;  // by slot, in its storage
  std::vector<Storage> storages_;
  std::vector<size_t> base_;  // by storage, in its arena
};

}  // namespace

ExecutionPlan MakePlan(const RuntimeImpl& graph, const std::vector<Value>& inputs, int threads) {
  return Planner(graph, inputs, threads).Run();
}

}  // namespace oort
