// SPDX-License-Identifier: MIT
#include "oort/session.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "collectives/collective.h"
#include "core/checked.h"
#include "core/cpu_limits.h"
#include "core/host_memory.h"
#include "core/memory_budget.h"
#include "core/parallel.h"
#include "runtime/device_run.h"
#include "runtime/profile_recorder.h"
#include "runtime/runtime_impl.h"

namespace oort {
namespace {

void FlattenInto(std::vector<Value>& flat, Value value) {
  if (!value.IsList()) {
    flat.push_back(std::move(value));
    return;
  }
  for (Value& item : value.AsList()) FlattenInto(flat, std::move(item));
}

[[noreturn]] void ThrowNoTensor(size_t output, const Value& value) {
  throw Error(ErrorCode::kUnsupported, "output " + std::to_string(output) + " is " +
                                           value.KindName() +
                                           ", no tensor; Session::Run returns it");
}

}  // namespace

struct Session::Impl {
  std::shared_ptr<const RuntimeGraph> owner;
  const RuntimeImpl& graph;
  int threads;
  size_t memory_limit;

  std::vector<Value> slots;  ///< one value for each operand; its size never changes
  ArgTable args;
  std::shared_ptr<const ExecutionPlan> plan;  ///< what slots is bound to, if anything
  std::shared_ptr<Buffer> arena;
  std::unique_ptr<DeviceRun> device;  ///< null where all of the graph runs on the host
  // Kept from run to run, so that a run need not allocate them.
  std::vector<Value> given_inputs;
  std::vector<Tensor> result_buffers;
  std::vector<bool> needed;     ///< nodes, by what is unread; empty for all
  uint64_t needed_without = 0;  ///< the unread outputs that `needed` is for
  std::vector<std::span<const std::byte>> next_weights;  ///< of each node; see FindNextWeights
  int64_t loops = 0;  ///< that the last run had on several threads
  ThreadShare share;  ///< of the processors, beside other sessions

  Impl(std::shared_ptr<const RuntimeGraph> shared, const RuntimeImpl& impl,
       const SessionOptions& options)
      : owner(std::move(shared)),
        graph(impl),
        threads(options.threads > 0 ? std::min(options.threads, kMostThreads) : AvailableThreads()),
        memory_limit(options.memory_limit),
        slots(impl.constants),
        result_buffers(impl.output_slots.size()),
        next_weights(impl.nodes.size()) {
    args = ArgTable(graph, slots);
    FindNextWeights();
    if (graph.device.type != DeviceType::kCpu) {
      device = std::make_unique<DeviceRun>(graph, options.record_graphs);
    }
  }

  std::vector<Value> Run(const std::vector<Value>& inputs, const RunOptions& options);
  void RunInto(std::span<const Tensor> inputs, std::span<Tensor> outputs, const RunOptions& options,
               bool wait);
  /// Everything but the results: `take` gets them out of their slots.
  template <typename Take>
  void Execute(const std::vector<Value>& inputs, std::span<const Tensor> outputs,
               const RunOptions& options, bool wait, const Take& take);
  bool PlanFits(const std::vector<Value>& inputs) const;
  void CheckInputs(const std::vector<Value>& inputs) const;
  bool OnlyCopied(int slot) const;
  void CheckLimit(size_t bytes) const;
  void Bind(std::shared_ptr<const ExecutionPlan> next);
  void BindTo(int slot, const Tensor& source);
  void BindInputs(const std::vector<Value>& inputs);
  void BindOutputs(std::span<const Tensor> given);
  void FindNeeded(uint64_t unread);
  void MarkNeeded();
  void FindNextWeights();
  bool IsUnread(size_t output) const {
    return output < 64 && ((needed_without >> output) & 1) != 0;
  }
  void RunSteps(const RunOptions& options, ProfileRecorder* recorder, bool wait);
  bool AllResultsAreDirect() const;
  void RunWatched(size_t index, const RunOptions& options, ProfileRecorder* recorder);
  void RunStep(size_t index, const RunState* state);
  void RunCopy(const Node& node, const Step& step, Value& output);
  void RunDynamic(size_t index, std::span<Value> outputs, const RunState* state);
  std::vector<Value> TakeResults(std::span<const Tensor> given);
  void CopyResult(size_t index, Tensor& target);
  Value Detached(const Value& value);
  void Release();

  Value& SlotAt(int slot) { return slots[static_cast<size_t>(slot)]; }
  std::span<Value> OutputsOf(const Node& node) {
    return {slots.data() + node.first_output, static_cast<size_t>(node.output_count)};
  }
};

void Session::Impl::CheckInputs(const std::vector<Value>& inputs) const {
  for (size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i) {
    if (!inputs[i].IsTensor()) continue;
    const Tensor& tensor = inputs[i].AsTensor();
    if (!tensor.defined() || !tensor.has_data()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "input '" + graph.inputs[i].name + "' has no elements to read");
    }
    if (tensor.device() == Device::Cpu()) continue;
    const bool may_be_there = graph.device != Device::Cpu() && OnlyCopied(graph.input_slots[i]);
    if (may_be_there && tensor.device() == graph.device) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "input '" + graph.inputs[i].name + "' is on " + tensor.device().ToString() +
                    ", but the network reads it in host memory" +
                    (may_be_there ? " or on " + graph.device.ToString() : ""));
  }
}

/// Whether nothing but copies to the device reads the slot.
bool Session::Impl::OnlyCopied(int slot) const {
  for (const Node& node : graph.nodes) {
    const bool reads = std::find(node.inputs.begin(), node.inputs.end(), slot) != node.inputs.end();
    if (reads && node.copy != Node::kToDevice) return false;
  }
  return true;
}

void Session::Impl::CheckLimit(size_t bytes) const {
  if (memory_limit != 0 && bytes > memory_limit) {
    throw Error(ErrorCode::kLimit, "activations need " + std::to_string(bytes) +
                                       " bytes, over the limit of " + std::to_string(memory_limit));
  }
}

/// Points every slot of known shape into the arena, once for each change of shapes.
void Session::Impl::Bind(std::shared_ptr<const ExecutionPlan> next) {
  if (next == plan) return;
  CheckLimit(CheckedAdd(CheckedAdd(next->arena_size, next->device_arena_size), next->output_bytes));
  plan.reset();
  slots.assign(graph.constants.begin(), graph.constants.end());  // same size: no pointer moves
  if (!arena || arena->size() < next->arena_size) {
    arena.reset();
    // Large pages: transforms walk over it in long strides.
    arena = AllocatePages(next->arena_size, PageUse::kAlone);
  }
  if (device) device->Prepare(*next);
  for (const auto& [slot, tensor] : graph.device_constants) SlotAt(slot) = tensor;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const Value& spec = next->specs[slot];
    const Placement& place = next->placements[slot];
    if (place.kind == Placement::kArena) {
      slots[slot] = Tensor(spec.AsTensor().dtype(), spec.AsTensor().shape(),
                           place.on_device ? device->arena() : arena, place.offset);
    } else if (place.kind == Placement::kNone) {
      slots[slot] = spec;
    }
  }
  plan = std::move(next);
}

/// Inputs, and views of inputs and constants.
void Session::Impl::BindInputs(const std::vector<Value>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) SlotAt(graph.input_slots[i]) = inputs[i];
  for (int slot : plan->input_views) {
    const Placement& place = plan->placements[static_cast<size_t>(slot)];
    BindTo(slot, SlotAt(place.index).AsTensor());
  }
}

void Session::Impl::BindOutputs(std::span<const Tensor> given) {
  const size_t count = graph.output_slots.size();
  if (given.size() > count) {
    throw Error(ErrorCode::kInvalidArgument, "the model has " + std::to_string(count) +
                                                 " outputs, got buffers for " +
                                                 std::to_string(given.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const Value& spec = plan->specs[static_cast<size_t>(graph.output_slots[i])];
    if (i < given.size() && given[i].defined()) {
      const bool fits = given[i].has_data() && spec.IsTensor() &&
                        given[i].dtype() == spec.AsTensor().dtype() &&
                        given[i].shape() == spec.AsTensor().shape();
      const Device where = given[i].device();
      if (where != Device::Cpu() && where != graph.outputs[i].device) {
        throw Error(ErrorCode::kInvalidArgument, "the buffer for output '" + graph.outputs[i].name +
                                                     "' is on " + where.ToString() +
                                                     ", but the output is made on " +
                                                     graph.outputs[i].device.ToString());
      }
      // A result of unknown shape is compared when it is there.
      if (!fits && !spec.IsDeferred()) {
        throw Error(ErrorCode::kInvalidArgument, "the buffer for output '" + graph.outputs[i].name +
                                                     "' is " + given[i].ToString() +
                                                     ", but the output is " + spec.ToString());
      }
      result_buffers[i] = given[i];
    } else if (plan->direct_outputs[i]) {
      result_buffers[i] = Tensor(spec.AsTensor().dtype(), spec.AsTensor().shape());
    }
  }
  for (int slot : plan->output_slots) {
    const Placement& place = plan->placements[static_cast<size_t>(slot)];
    BindTo(slot, result_buffers[static_cast<size_t>(place.index)]);
  }
}

/// The slot becomes a part of the memory of `source`, where the plan says.
void Session::Impl::BindTo(int slot, const Tensor& source) {
  const size_t index = static_cast<size_t>(slot);
  const Tensor& spec = plan->specs[index].AsTensor();
  slots[index] = Tensor(spec.dtype(), spec.shape(), source.buffer(),
                        source.offset() + plan->placements[index].offset);
}

void Session::Impl::RunStep(size_t index, const RunState* state) {
  const Node& node = graph.nodes[index];
  const Step& step = plan->steps[index];
  const std::span<Value> outputs = OutputsOf(node);
  if (step.kind == Step::kSkip) return;
  WithOperator(graph.OpOf(node), [&] {
    if (node.copy != Node::kNoCopy) {
      RunCopy(node, step, outputs[0]);
      return;
    }
    if (device && !node.OnDevice()) device->WaitForHost();
    if (step.kind == Step::kDynamic) {
      RunDynamic(index, outputs, state);
      return;
    }
    std::byte* const memory = (node.OnDevice() ? device->arena() : arena)->data();
    const Context context(threads, {memory + step.workspace_offset, step.workspace_size}, state,
                          node.OnDevice() ? device->queue().stream() : nullptr,
                          next_weights[index]);
    node.layer->Forward(context, args[index], outputs);
  });
}

void Session::Impl::RunCopy(const Node& node, const Step& step, Value& output) {
  device->Copy(node, SlotAt(node.inputs[0]), output, step.kind == Step::kRun);
}

void Session::Impl::RunDynamic(size_t index, std::span<Value> outputs, const RunState* state) {
  const Node& node = graph.nodes[index];
  const Args arguments = args[index];
  const bool on_device = node.OnDevice();
  const ShapeArgs on_host(arguments);
  const Args shapes = on_device ? on_host.View() : arguments;
  RunEagerly(*node.layer, arguments, shapes, InferNode(graph, node, shapes), outputs,
             {threads, state, on_device ? &device->queue() : nullptr});
}

/// Whether nothing is left to do once the last step is done.
bool Session::Impl::AllResultsAreDirect() const {
  return std::ranges::all_of(plan->direct_outputs, [](bool direct) { return direct; });
}

/// Nodes that an output depends on which somebody reads.
void Session::Impl::FindNeeded(uint64_t unread) {
  // On a device it costs nothing that leaving it out would spare, but where ranks would wait for
  // it.
  if (device && GroupScope::Current() == nullptr) unread = 0;
  if (unread == needed_without) return;
  needed_without = unread;
  try {
    MarkNeeded();
  } catch (...) {
    // Half of the marks would leave out nodes that are needed: without marks all run.
    needed.clear();
    needed_without = 0;
    throw;
  }
  FindNextWeights();
}

void Session::Impl::MarkNeeded() {
  needed.assign(needed_without == 0 ? 0 : graph.nodes.size(), false);
  if (needed.empty()) return;
  std::vector<bool> read(slots.size(), false);
  for (size_t i = 0; i < graph.output_slots.size(); ++i) {
    if (!IsUnread(i)) read[static_cast<size_t>(graph.output_slots[i])] = true;
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    for (int output = 0; output < node.output_count; ++output) {
      if (read[static_cast<size_t>(node.first_output + output)]) needed[i] = true;
    }
    if (!needed[i]) continue;
    for (int slot : node.inputs) read[static_cast<size_t>(slot)] = true;
  }
}

/// What each node may prefetch: the weights of the next one that runs and has any.
void Session::Impl::FindNextWeights() {
  std::span<const std::byte> next;
  bool next_on_device = false;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    next_weights[i] = node.OnDevice() == next_on_device ? next : std::span<const std::byte>();
    if (!needed.empty() && !needed[i]) continue;
    const std::span<const std::byte> own = node.layer->WeightBytes();
    if (own.empty()) continue;
    next = own;
    next_on_device = node.OnDevice();
  }
}

void Session::Impl::RunSteps(const RunOptions& options, ProfileRecorder* recorder, bool wait) {
  const MemoryBudget budget(memory_limit, plan->arena_size);
  if (device) device->Begin();
  const RunState* state = options.state;
  const std::optional<RunState::Key> state_key =
      state == nullptr ? RunState::Key{} : state->RecordingKey();
  const bool replay = device && recorder == nullptr && !options.observer && state_key;
  const RunKey key{plan, state_key.value_or(RunState::Key{}), needed_without};
  // A device without a stream, as tests have one, runs in the host's memory.
  if (device && state != nullptr && device->queue().stream() != nullptr) {
    state->Enqueue(*device->queue().stream());
  }
  const auto run_step = [this, state](size_t index) {
    if (needed.empty() || needed[index]) RunStep(index, state);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (options.stop.stop_requested()) {
      throw Error(ErrorCode::kCancelled, "the run was cancelled");
    }
    if (replay) {
      const size_t next = device->Replay(key, i, run_step);
      if (next != i) {
        i = next - 1;
        continue;
      }
    }
    if (needed.empty() || needed[i]) {
      RunWatched(i, options, recorder);
    } else if (recorder != nullptr) {
      recorder->Skip(i);
    }
    for (int slot : plan->steps[i].release) SlotAt(slot) = Value();
  }
  if (!device) return;
  wait || !AllResultsAreDirect() ? device->End() : device->Leave();
  if (replay) device->CountRun(key);
}

/// One step, and who wants to know of it: they wait for the device after each.
void Session::Impl::RunWatched(size_t index, const RunOptions& options, ProfileRecorder* recorder) {
  if (recorder == nullptr && !options.observer) {
    RunStep(index, options.state);
    return;
  }
  using Clock = std::chrono::steady_clock;
  const Node& node = graph.nodes[index];
  const Clock::time_point start = Clock::now();
  const auto run = [&] { RunStep(index, options.state); };
  std::optional<double> device_seconds;
  if (recorder != nullptr) recorder->Begin(index);
  if (device && (node.OnDevice() || node.copy != Node::kNoCopy)) {
    device_seconds = device->queue().Timed(run);
  } else {
    run();
  }
  if (device) device->Finish();
  if (recorder != nullptr) {
    recorder->End(index, plan->steps[index].kind == Step::kDynamic, device_seconds);
  }
  if (!options.observer) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::vector<Value> copies = device ? device->OnHost(OutputsOf(node)) : std::vector<Value>();
  const std::span<const Value> outputs = device ? std::span<const Value>(copies) : OutputsOf(node);
  options.observer({static_cast<int>(index), graph.OpOf(node), outputs, seconds});
}

std::vector<Value> Session::Impl::TakeResults(std::span<const Tensor> given) {
  std::vector<Value> results;
  results.reserve(graph.output_slots.size());
  for (size_t i = 0; i < graph.output_slots.size(); ++i) {
    const Value& value = SlotAt(graph.output_slots[i]);
    if (plan->direct_outputs[i]) {
      results.push_back(value);
    } else if (IsUnread(i)) {
      results.emplace_back(Tensor());
    } else if (i < given.size() && given[i].defined()) {
      Tensor target = given[i];
      CopyResult(i, target);
      results.emplace_back(std::move(target));
    } else {
      FlattenInto(results, Detached(value));
    }
  }
  return results;
}

void Session::Impl::CopyResult(size_t index, Tensor& target) {
  const Value& value = SlotAt(graph.output_slots[index]);
  if (!value.IsTensor() || target.dtype() != value.AsTensor().dtype() ||
      !(target.shape() == value.AsTensor().shape())) {
    throw Error(ErrorCode::kInvalidArgument, "the buffer for output '" + graph.outputs[index].name +
                                                 "' is " + target.ToString() +
                                                 ", but the output is " + value.ToString());
  }
  device ? device->CopyNow(value.AsTensor(), target) : CopyElements(value.AsTensor(), target);
}

/// Results that nobody gave memory for are on the host, and share none with what the caller passed
/// in or with the session.
Value Session::Impl::Detached(const Value& value) {
  if (value.IsList()) {
    Value::List copy;
    for (const Value& item : value.AsList()) copy.push_back(Detached(item));
    return copy;
  }
  if (!value.IsTensor()) return value;
  const bool away = value.AsTensor().device() != Device::Cpu();
  return away ? device->OnHost({&value, 1})[0] : value.AsTensor().Clone();
}

/// Lets go of everything that belongs to the caller or to one run.
void Session::Impl::Release() {
  if (device) device->Abandon();
  for (Value& input : given_inputs) input = Value();
  for (Tensor& buffer : result_buffers) buffer = Tensor();
  if (!plan) return;
  for (int slot : plan->borrowed) SlotAt(slot) = Value();
}

/// Whether the plan that the slots are bound to is the one for these inputs, told without looking
/// for it among the cached ones.
bool Session::Impl::PlanFits(const std::vector<Value>& inputs) const {
  if (!plan || plan->inputs.size() != inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].IsTensor() || !plan->inputs[i].IsTensor()) return false;
    const Tensor &given = inputs[i].AsTensor(), &planned = plan->inputs[i].AsTensor();
    if (given.dtype() != planned.dtype() || !(given.shape() == planned.shape())) return false;
  }
  return true;
}

template <typename Take>
void Session::Impl::Execute(const std::vector<Value>& inputs, std::span<const Tensor> outputs,
                            const RunOptions& options, bool wait, const Take& take) {
  struct Releaser {
    Impl& impl;
    ~Releaser() { impl.Release(); }  // after an error, too
  };
  const Releaser releaser{*this};
  const std::shared_ptr<void> scope = device ? device->queue().Enter() : nullptr;
  const ThreadLease lease(threads, share);
  const StopScope stop(options.stop);
  std::optional<ProfileRecorder> recorder;
  if (options.profile != nullptr) recorder.emplace(*options.profile, graph, args, slots);
  if (!PlanFits(inputs)) Bind(graph.PlanFor(inputs, threads));
  CheckInputs(inputs);
  BindInputs(inputs);
  BindOutputs(outputs);
  FindNeeded(options.unread_outputs);
  RunAwake(threads, loops, [&] { RunSteps(options, recorder ? &*recorder : nullptr, wait); });
  take();
  if (recorder) recorder->Finish(*plan);
}

std::vector<Value> Session::Impl::Run(const std::vector<Value>& inputs, const RunOptions& options) {
  std::vector<Value> results;
  Execute(inputs, options.outputs, options, true, [&] { results = TakeResults(options.outputs); });
  return results;
}

void Session::Impl::RunInto(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                            const RunOptions& options, bool wait) {
  if (outputs.size() != graph.output_slots.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the model has " + std::to_string(graph.output_slots.size()) +
                    " outputs, got tensors for " + std::to_string(outputs.size()));
  }
  given_inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) given_inputs[i] = inputs[i];
  Execute(given_inputs, outputs, options, wait, [&] {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (IsUnread(i)) continue;
      const Value& value = SlotAt(graph.output_slots[i]);
      if (!value.IsTensor()) ThrowNoTensor(i, value);
      if (outputs[i].defined()) {
        if (!plan->direct_outputs[i]) CopyResult(i, outputs[i]);
      } else {
        outputs[i] = (plan->direct_outputs[i] ? value : Detached(value)).AsTensor();
      }
    }
  });
}

Session::Session(std::shared_ptr<const RuntimeGraph> graph, SessionOptions options) {
  Guarded([&] {
    if (!graph) throw Error(ErrorCode::kInvalidArgument, "a Session needs a graph");
    const RuntimeImpl& impl = *graph->impl_;
    impl_ = std::make_unique<Impl>(std::move(graph), impl, options);
  });
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<Value> Session::Run(const std::vector<Value>& inputs, const RunOptions& options) {
  return Guarded([&] { return impl_->Run(inputs, options); });
}

std::vector<Tensor> Session::Forward(const std::vector<Tensor>& inputs, const RunOptions& options) {
  return Guarded([&] {
    std::vector<Tensor> results;
    for (Value& value : impl_->Run({inputs.begin(), inputs.end()}, options)) {
      if (!value.IsTensor()) ThrowNoTensor(results.size(), value);
      results.push_back(std::move(value.AsTensor()));
    }
    return results;
  });
}

void Session::ForwardInto(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                          const RunOptions& options) {
  Guarded([&] { impl_->RunInto(inputs, outputs, options, true); });
}

PendingForward Session::ForwardLater(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                     const RunOptions& options) {
  return Guarded([&] {
    impl_->RunInto(inputs, outputs, options, false);
    PendingForward pending;
    if (impl_->device) pending.mark_ = impl_->device->queue().Mark();
    return pending;
  });
}

PendingForward::PendingForward() = default;
PendingForward::~PendingForward() = default;
PendingForward::PendingForward(PendingForward&&) noexcept = default;
PendingForward& PendingForward::operator=(PendingForward&&) noexcept = default;

void PendingForward::Wait() {
  if (const std::unique_ptr<DeviceMark> mark = std::move(mark_)) Guarded([&] { mark->Wait(); });
}

Session::NamedTensors Session::ForwardNamed(const NamedTensors& inputs, const RunOptions& options) {
  return Guarded([&] {
    const std::vector<Port>& ports = impl_->graph.inputs;
    std::vector<Tensor> ordered(ports.size());
    for (const auto& [name, tensor] : inputs) {
      const int index = FindInput(ports, name);
      if (index < 0) {
        std::string known;
        for (const Port& p : ports) known += (known.empty() ? "" : ", ") + p.name;
        throw Error(ErrorCode::kNotFound,
                    "the model has no input '" + name + "'; its inputs are: " + known);
      }
      Tensor& target = ordered[static_cast<size_t>(index)];
      if (target.defined()) {
        throw Error(ErrorCode::kInvalidArgument, "input '" + name + "' is given twice");
      }
      target = tensor;
    }
    for (size_t i = 0; i < ordered.size(); ++i) {
      if (!ordered[i].defined()) {
        throw Error(ErrorCode::kInvalidArgument, "input '" + ports[i].name + "' is missing");
      }
    }
    const std::vector<Tensor> results = Forward(ordered, options);
    NamedTensors named;
    for (size_t i = 0; i < results.size(); ++i) {
      const std::vector<Port>& outputs = impl_->graph.outputs;
      const bool known = results.size() == outputs.size();
      named.emplace_back(known ? outputs[i].name : "pnnx_output_" + std::to_string(i), results[i]);
    }
    return named;
  });
}

const RuntimeGraph& Session::graph() const { return *impl_->owner; }
int Session::threads() const { return impl_->threads; }
cuda::Stream* Session::stream() const {
  return impl_->device ? impl_->device->queue().stream() : nullptr;
}
size_t Session::memory() const {
  const size_t host = impl_->arena ? impl_->arena->size() : 0;
  const bool elsewhere = impl_->device && impl_->device->arena();
  return host + (elsewhere ? impl_->device->arena()->size() : 0);
}

}  // namespace oort
