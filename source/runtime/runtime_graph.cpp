// SPDX-License-Identifier: MIT
#include "oort/runtime_graph.h"

#include <algorithm>
#include <limits>

#include "core/parallel.h"
#include "graph/passes/passes.h"
#include "layers/convolution/conv_algorithm.h"
#include "runtime/builder.h"
#include "runtime/footprint.h"
#include "runtime/runtime_impl.h"

namespace oort {
namespace {

void AppendInt(std::string& key, int64_t value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Everything of an input that a plan depends on.
void AppendSignature(std::string& key, const Value& value) {
  if (!value.IsTensor()) {
    const std::string text = value.ToString();
    AppendInt(key, -1 - static_cast<int64_t>(text.size()));
    key += text;
    return;
  }
  const Tensor& tensor = value.AsTensor();
  AppendInt(key, static_cast<int64_t>(tensor.dtype()));
  AppendInt(key, tensor.rank());
  for (int64_t extent : tensor.shape()) AppendInt(key, extent);
}

std::vector<Value> ToValues(const std::vector<Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

std::string SpecText(const Value& value) { return value.ToString(); }

/// Whether the known extents of `traced` are those of `given`.
bool SameExtents(const Shape& traced, const Shape& given) {
  for (int i = 0; i < traced.rank(); ++i) {
    if (traced[i] != Shape::kUnknown && traced[i] != given[i]) return false;
  }
  return true;
}

/// What of an input is not as it was when the model was traced, which is why shapes may not fit
/// further down; empty if nothing is.
std::string DifferenceFromTrace(const Port& port, const Tensor& given) {
  const bool typed = port.dtype != DType::kNull;
  const std::string traced = "the model was traced with " + port.shape.ToString() +
                             std::string(typed ? Name(port.dtype) : "");
  const std::string text = "input '" + port.name + "' is " + given.ToString() + ", " + traced;
  if (given.rank() != port.shape.rank() || (typed && given.dtype() != port.dtype)) return text;
  if (SameExtents(port.shape, given.shape())) return "";
  return text +
         " and may have fixed that size (export it with a second input of another size, inputs2=, "
         "to keep it free)";
}

/// The error of an operator that does not get what it needs, with what of the inputs may be why. An
/// operator that a pass made up, which has no line in the file (`lines`), would only puzzle.
Error WithInputs(const Error& error, const std::vector<Port>& ports,
                 const std::vector<Value>& given, bool lines) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!ports[i].has_shape || !given[i].IsTensor()) continue;
    const std::string difference = DifferenceFromTrace(ports[i], given[i].AsTensor());
    if (difference.empty()) continue;
    const bool known =
        !lines || std::string_view(error.what()).find(", line ") != std::string::npos;
    return known ? error.WithContext(difference + ": ") : Error(error.code(), difference);
  }
  return error;
}

}  // namespace

std::shared_ptr<const ExecutionPlan> RuntimeImpl::PlanFor(const std::vector<Value>& given,
                                                          int threads) const {
  if (given.size() != input_slots.size()) {
    throw Error(ErrorCode::kInvalidArgument, "the model takes " +
                                                 std::to_string(input_slots.size()) +
                                                 " inputs, got " + std::to_string(given.size()));
  }
  std::string key;
  AppendInt(key, threads);
  for (const Value& value : given) AppendSignature(key, value);
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(plans_.begin(), plans_.end(),
                                    [&](const CachedPlan& cached) { return cached.key == key; });
    if (found != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, found);
      return plans_.front().plan;
    }
  }
  // Planned outside the lock: two threads may do the same work once, but none waits for it.
  std::shared_ptr<const ExecutionPlan> plan;
  try {
    plan = std::make_shared<const ExecutionPlan>(MakePlan(*this, given, threads));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    const bool lines =
        std::ranges::any_of(graph.operators, [](const Operator& op) { return op.line > 0; });
    throw WithInputs(error, inputs, given, lines);
  }
  const std::lock_guard lock(mutex_);
  plans_.push_front({std::move(key), plan});
  if (plans_.size() > kMostPlans) plans_.pop_back();
  return plan;
}

RuntimeGraph::RuntimeGraph(std::unique_ptr<RuntimeImpl> impl) : impl_(std::move(impl)) {}
RuntimeGraph::~RuntimeGraph() = default;

std::shared_ptr<const RuntimeGraph> RuntimeGraph::Build(Graph graph, const LoadOptions& options) {
  return Guarded([&] {
    const ThreadLease lease(AvailableThreads());
    std::unique_ptr<RuntimeImpl> impl = GraphBuilder(std::move(graph), options).Run();
    return std::shared_ptr<const RuntimeGraph>(new RuntimeGraph(std::move(impl)));
  });
}

std::shared_ptr<const RuntimeGraph> RuntimeGraph::Load(const ByteSource& param,
                                                       std::shared_ptr<const ByteSource> bin,
                                                       const LoadOptions& options) {
  return Guarded([&] {
    const ReadOptions read{options.verify_checksums, options.stop, options.progress};
    return Build(ReadPnnx(param, std::move(bin), read), options);
  });
}

std::shared_ptr<const RuntimeGraph> RuntimeGraph::Load(const std::filesystem::path& param,
                                                       const std::filesystem::path& bin,
                                                       const LoadOptions& options) {
  return Guarded([&] {
    const auto structure = ByteSource::File(param);
    return Load(*structure, bin.empty() ? nullptr : ByteSource::File(bin), options);
  });
}

std::vector<std::string> RuntimeGraph::PassNames() {
  std::vector<std::string> names;
  for (const Pass& pass : Passes()) {
    if (std::find(names.begin(), names.end(), pass.name) == names.end()) {
      names.emplace_back(pass.name);
    }
  }
  return names;
}

std::vector<std::string> RuntimeGraph::ConvAlgorithms() {
  return {kConvAlgorithmNames.begin(), kConvAlgorithmNames.end()};
}

int FindInput(const std::vector<Port>& inputs, std::string_view name) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (name == inputs[i].name || name == inputs[i].operand || name == "in" + std::to_string(i)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

const std::vector<Port>& RuntimeGraph::inputs() const { return impl_->inputs; }
const std::vector<Port>& RuntimeGraph::outputs() const { return impl_->outputs; }
const Graph& RuntimeGraph::graph() const { return impl_->graph; }
Isa RuntimeGraph::isa() const { return impl_->isa; }
Precision RuntimeGraph::precision() const { return impl_->precision; }
Device RuntimeGraph::device() const { return impl_->device; }

Device RuntimeGraph::DeviceOf(std::string_view operator_name) const {
  for (const Node& node : impl_->nodes) {
    if (impl_->OpOf(node).name == operator_name) return node.device;
  }
  return Device::Cpu();
}

int64_t RuntimeGraph::BatchInvariantRows() const {
  int64_t rows = std::numeric_limits<int64_t>::max();
  for (const Node& node : impl_->nodes) {
    rows = std::min(rows, node.layer->Traits().batch_invariant_rows);
  }
  return rows;
}

int64_t RuntimeGraph::FastInvariantRows() const {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> told;
  for (const Node& node : impl_->nodes) {
    const int64_t rows = node.layer->Traits().fast_invariant_rows;
    if (rows != kAny) told.push_back(rows);
  }
  if (told.empty()) return kAny;
  const auto middle = told.begin() + static_cast<std::ptrdiff_t>(told.size() / 2);
  std::nth_element(told.begin(), middle, told.end());
  return *middle;
}

PlanReport RuntimeGraph::Plan(const std::vector<Tensor>& inputs, int threads) const {
  return Guarded([&] {
    const std::shared_ptr<const ExecutionPlan> plan = impl_->PlanFor(ToValues(inputs), threads);
    PlanReport report;
    report.memory.arena = plan->arena_size;
    report.memory.arena_bound = plan->arena_bound;
    report.memory.outputs = plan->output_bytes;
    report.memory.without_reuse = plan->bytes_without_reuse;
    report.memory.workspace = plan->largest_workspace;
    report.memory.weights = impl_->weight_bytes;
    report.memory.loading = impl_->loading_bytes;
    report.memory.structures = StructureBytes(*impl_) + StructureBytes(*impl_, *plan);
    report.memory.device_weights = impl_->device_weight_bytes;
    report.memory.device_arena = plan->device_arena_size;
    for (const ArenaBlock& block : plan->blocks) {
      const size_t owner = static_cast<size_t>(block.owner);
      const std::string& name =
          block.scratch ? impl_->OpOf(impl_->nodes[owner]).name : impl_->slot_names[owner];
      report.blocks.push_back({name, block.scratch, block.offset, block.size, block.first,
                               block.last, block.on_device ? impl_->device : Device::Cpu()});
    }
    const ArgTable args(*impl_, plan->specs);
    for (size_t i = 0; i < impl_->nodes.size(); ++i) {
      const Node& node = impl_->nodes[i];
      const Operator& op = impl_->OpOf(node);
      NodeReport& row = report.nodes.emplace_back();
      row.name = op.name;
      row.type = op.type;
      row.line = op.line;
      for (int slot : node.inputs) {
        row.inputs.push_back(SpecText(plan->specs[static_cast<size_t>(slot)]));
      }
      const std::span<const Value> outputs(plan->specs.data() + node.first_output,
                                           static_cast<size_t>(node.output_count));
      for (const Value& output : outputs) row.outputs.push_back(SpecText(output));
      if (plan->steps[i].kind == Step::kRun) row.work = node.layer->Work(args[i], outputs);
      row.sharing = plan->steps[i].sharing;
      row.device = node.device;
      row.fallback = node.fallback;
      if (node.output_count > 0) {
        const Placement& place = plan->placements[static_cast<size_t>(node.first_output)];
        row.in_arena = place.kind == Placement::kArena;
        row.first_offset = place.offset;
      }
    }
    return report;
  });
}

std::vector<Tensor> RuntimeGraph::InferShapes(const std::vector<Tensor>& inputs) const {
  return Guarded([&] {
    const std::shared_ptr<const ExecutionPlan> plan = impl_->PlanFor(ToValues(inputs), 1);
    std::vector<Tensor> shapes;
    for (int slot : impl_->output_slots) {
      const Value& spec = plan->specs[static_cast<size_t>(slot)];
      shapes.push_back(spec.IsTensor()
                           ? Tensor::Meta(spec.AsTensor().dtype(), spec.AsTensor().shape())
                           : Tensor());
    }
    return shapes;
  });
}

}  // namespace oort
