// SPDX-License-Identifier: MIT
// From a Graph to a RuntimeGraph: diagnose, rewrite, make layers, lay out slots.
#include <algorithm>

#include "core/checked.h"
#include "core/host_memory.h"
#include "core/memory_budget.h"
#include "cpu/lanes_kernels.h"
#include "graph/bind_constants.h"
#include "graph/passes/passes.h"
#include "layers/convolution/conv_algorithm.h"
#include "layers/precision_param.h"
#include "oort/log.h"
#include "oort/precision_choice.h"
#include "runtime/builder.h"
#include "runtime/placement.h"
#include "runtime/promised_weights.h"
#include "runtime/runtime_impl.h"

namespace oort {
namespace {

bool Disabled(const LoadOptions& options, std::string_view pass) {
  return std::any_of(options.disabled_passes.begin(), options.disabled_passes.end(),
                     [&](const std::string& name) { return name == pass || name == "all"; });
}

/// pnnx passes a weight that several modules share as an input before the data.
void LogSharedWeights(const Operator& op, const OperatorSchema& schema, const BoundArgs& bound) {
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const int input = bound.args[i].input;
    if (input < 0 || !schema.args()[i].attribute) continue;
    log::Write(log::Level::kWarning, op.Describe() + ": took input " + std::to_string(input) +
                                         " for its '@" + schema.args()[i].name +
                                         "', which it shares with another module");
  }
}

}  // namespace

const LayerRegistry& RegistryOf(const LoadOptions& options) {
  return options.registry != nullptr ? *options.registry : LayerRegistry::Global();
}

GraphBuilder::GraphBuilder(Graph graph, const LoadOptions& options)
    : options_(options), impl_(std::make_unique<RuntimeImpl>()) {
  impl_->graph = std::move(graph);
  impl_->isa = options.isa;
  impl_->precision = options.precision;
  impl_->device = options.device;
}

std::unique_ptr<RuntimeImpl> GraphBuilder::Run() {
  std::vector<Problem> problems = RuntimeGraph::Diagnose(impl_->graph, options_);
  if (!problems.empty()) throw Error("the model cannot run", std::move(problems));
  const std::span<const Isa> isas = SupportedIsas();
  if (std::find(isas.begin(), isas.end(), options_.isa) == isas.end()) {
    IsaOf(Name(options_.isa));  // says which ones there are
  }
  if (options_.device.type != DeviceType::kCpu) backend_ = BackendOf(options_.device);
  RunPasses();
  SetPrecision();
  SetConvAlgorithm();
  AssignSlots();
  MakeNodes();
  MakePorts();
  std::set<int> uploaded;
  if (backend_) uploaded = PlaceCopies(*impl_, slot_of_, *backend_);
  ReleaseConstants(uploaded);
  SettleLayers();
  CountWeights();
  CheckTracedShapes();
  return std::move(impl_);
}

void GraphBuilder::CheckStop() const {
  if (options_.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "loading was cancelled");
}

std::shared_ptr<const OperatorSchema> GraphBuilder::SchemaOf(const std::string& type) {
  std::shared_ptr<const OperatorSchema>& schema = schemas_[type];
  // A copy: the graph may outlive the registry that it was made from.
  if (!schema) {
    const OperatorSchema* declared = RegistryOf(options_).Schema(type);
    if (declared == nullptr) {
      throw Error(ErrorCode::kUnsupported, "operator type '" + type + "' is not known");
    }
    schema = std::make_shared<const OperatorSchema>(*declared);
  }
  return schema;
}

namespace {

/// The layer of the node's device, or that of the host, with the reason, where it has none.
void MakeLayer(Node& node, const Operator& op, const LayerRegistry& registry,
               const std::function<LayerInit(Device)>& init, Device device) {
  if (device.type != DeviceType::kCpu) {
    try {
      node.layer = registry.Make(init(device));
      node.device = device;
      return;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      node.fallback = error.what();
    }
  }
  node.layer = registry.Make(init(Device::Cpu()));
  if (node.fallback.empty()) return;
  if (node.layer->Traits().shapes_only) {
    node.fallback.clear();
  } else {
    log::Write(log::Level::kInfo, op.Describe() + " runs on the CPU: it " + node.fallback);
  }
}

}  // namespace

Node GraphBuilder::MakeNode(const Operator& op, std::span<const Value> constant_inputs,
                            Device device) {
  Node node;
  node.schema = SchemaOf(op.type);
  std::vector<Problem> problems;
  node.bound = BindArguments(*node.schema, op, problems);
  if (!problems.empty()) throw Error(problems.front().code, problems.front().message);
  LogSharedWeights(op, *node.schema, node.bound);
  WithOperator(op, [&] { BindConstants(*node.schema, constant_inputs, node.bound); });
  const auto hints = [&](const std::vector<int>& indices) {
    std::vector<const Operand*> operands;
    for (int i : indices) operands.push_back(&impl_->graph.operands[static_cast<size_t>(i)]);
    return operands;
  };
  const std::vector<const Operand*> outputs = hints(op.outputs), inputs = hints(op.inputs);
  node.output_count = static_cast<int>(op.outputs.size());
  const auto init = [&](Device where) {
    return LayerInit(op, *node.schema, node.bound, constant_inputs, options_.isa, outputs, inputs,
                     where);
  };
  WithOperator(op, [&] { MakeLayer(node, op, RegistryOf(options_), init, device); });
  return node;
}

GraphBuilder::LoneNode::LoneNode(Node made, const Operator& op, std::span<const Value> inputs)
    : slots(inputs.begin(), inputs.end()) {
  impl.graph.operators.push_back(op);
  for (size_t i = 0; i < inputs.size(); ++i) made.inputs.push_back(static_cast<int>(i));
  made.first_output = static_cast<int>(inputs.size());
  slots.resize(inputs.size() + op.outputs.size());
  impl.nodes.push_back(std::move(made));
  table = ArgTable(impl, slots);
}

std::optional<std::vector<Value>> GraphBuilder::Evaluate(const Operator& op,
                                                         std::span<const Value> inputs) {
  if (op.IsPort() || SchemaOf(op.type)->random()) return {};
  const LoneNode lone(MakeNode(op, inputs, Device::Cpu()), op, inputs);
  const std::vector<Value> outputs = InferNode(lone.impl, lone.node(), lone.args());
  size_t bytes = 0, read = 0;
  for (const Value& input : inputs) read += input.IsTensor() ? input.AsTensor().bytes() : 0;
  for (const Value& output : outputs) {
    if (output.IsTensor()) {
      bytes = CheckedAdd(bytes, output.AsTensor().bytes());
    } else if (!output.IsConcrete()) {
      return {};
    }
  }
  // Folding must not blow a small file up into a large graph.
  constexpr size_t kSmall = size_t{1} << 20;
  if (bytes > std::max(kSmall, 4 * read)) return {};
  std::vector<Value> results(outputs.size());
  const MemoryBudget budget(CheckedMultiply<size_t>(16, std::max(4 * kSmall, read)));
  try {
    WithOperator(op, [&] {
      RunEagerly(*lone.node().layer, lone.args(), lone.args(), outputs, results, RunPlace{});
    });
  } catch (const Error& error) {
    // Nor may what an operator needs on the way.
    if (error.code() == ErrorCode::kLimit) return {};
    throw;
  }
  return results;
}

std::optional<std::vector<Value>> GraphBuilder::InferAlone(const Operator& op,
                                                           std::span<const Value> inputs) {
  Node node;
  node.schema = SchemaOf(op.type);
  std::vector<Problem> problems;
  node.bound = BindArguments(*node.schema, op, problems);
  if (!problems.empty()) return {};
  // Weights come as operands without elements, so that none is packed for this.
  Operator alone = op;
  alone.attributes.clear();
  std::vector<Value> values(inputs.begin(), inputs.end());
  for (size_t i = 0; i < node.bound.args.size(); ++i) {
    BoundArg& arg = node.bound.args[i];
    if (node.schema->args()[i].type != ArgType::kTensor) continue;
    if (arg.input < 0 && arg.value.IsTensor()) {
      arg.input = static_cast<int>(values.size());
      values.push_back(std::exchange(arg.value, Value()));
    }
    if (arg.input < 0 || !values[static_cast<size_t>(arg.input)].IsTensor()) continue;
    Value& value = values[static_cast<size_t>(arg.input)];
    value = Tensor::Meta(value.AsTensor().dtype(), value.AsTensor().shape());
  }
  alone.inputs.resize(values.size(), -1);
  std::vector<Value> constants;
  for (const Value& value : values) {
    constants.push_back(value.IsConcrete() ? value : Value::Deferred());
  }
  try {
    BindConstants(*node.schema, constants, node.bound);
    std::vector<const Operand*> outputs;
    for (int i : op.outputs) outputs.push_back(&impl_->graph.operands[static_cast<size_t>(i)]);
    node.output_count = static_cast<int>(op.outputs.size());
    node.layer = RegistryOf(options_).Make(
        LayerInit(alone, *node.schema, node.bound, constants, options_.isa, outputs));
    const LoneNode lone(std::move(node), alone, values);
    return InferNode(lone.impl, lone.node(), lone.args());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    return {};
  }
}

namespace {

bool ReadsF16(const Graph& graph, const Operator& op) {
  return !op.inputs.empty() &&
         graph.operands[static_cast<size_t>(op.inputs[0])].dtype == DType::kF16;
}

}  // namespace

/// Operators that the file gives a precision keep it; the others that have one get that of the
/// load.
void GraphBuilder::SetPrecision() {
  const Precision precision = options_.precision;
  const bool on_cpu = options_.device.type == DeviceType::kCpu;
  if (precision == Precision::kF32 || (precision == Precision::kF16 && !on_cpu)) return;
  if (precision == Precision::kBF16 && on_cpu && !HasUnits(precision, options_.isa)) {
    log::Write(log::Level::kWarning,
               "precision bf16: there are no units for it here, so numbers are rounded and then "
               "multiplied in f32, which takes longer than f32 (--precision auto finds what is "
               "fastest)");
  }
  for (Operator& op : impl_->graph.operators) {
    // What computes in f16 is what the narrow-floats pass found fit for it.
    if (precision == Precision::kF16 && !ReadsF16(impl_->graph, op)) continue;
    const OperatorSchema* schema = RegistryOf(options_).Schema(op.type);
    if (schema == nullptr || schema->Find(kPrecisionParam) < 0) continue;
    op.params.emplace(kPrecisionParam, Parameter(std::string(Name(options_.precision))));
  }
}

/// As with the precision, what the file says of an operator stays.
void GraphBuilder::SetConvAlgorithm() {
  if (options_.conv_algorithm.empty()) return;
  for (Operator& op : impl_->graph.operators) {
    const OperatorSchema* schema = RegistryOf(options_).Schema(op.type);
    if (schema == nullptr || schema->Find(kConvAlgorithmParam) < 0) continue;
    op.params.emplace(kConvAlgorithmParam, Parameter(options_.conv_algorithm));
  }
}

namespace {

/// Throws where there is no algorithm of that name.
void CheckConvAlgorithm(const LoadOptions& options) {
  const std::string& wanted = options.conv_algorithm;
  if (wanted.empty() || std::ranges::find(kConvAlgorithmNames, wanted) != kConvAlgorithmNames.end())
    return;
  std::string names;
  for (const std::string_view name : kConvAlgorithmNames) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "expected an algorithm of convolutions, one of " + names + ", got '" + wanted + "'");
}

/// Throws where nothing can multiply in that precision there.
void CheckPrecision(const LoadOptions& options) {
  if (options.device.type == DeviceType::kCuda) return;
  if (options.precision == Precision::kF16) CheckF16Arithmetic(options.isa);
  if (options.precision != Precision::kTF32) return;
  throw Error(ErrorCode::kInvalidArgument,
              "expected precision f32, bf16 or f16 on the CPU, got tf32, for which only GPUs have "
              "kernels");
}

/// What networks hold between their operators. Units for bf16 of CPUs multiply only, so there
/// everything else stays f32.
DType NarrowTypeOf(Precision precision, Device device) {
  if (precision == Precision::kF16) return DType::kF16;
  const bool narrow = precision == Precision::kBF16 && device.type == DeviceType::kCuda;
  return narrow ? DType::kBF16 : DType::kNull;
}

}  // namespace

void GraphBuilder::RunPasses() {
  CheckPrecision(options_);
  CheckConvAlgorithm(options_);
  PassContext context{
      [this](const Operator& op, std::span<const Value> inputs) { return Evaluate(op, inputs); },
      &RegistryOf(options_),
      [this](std::string_view type) {
        return RegistryOf(options_).Has(type, options_.device.type);
      }};
  context.infer = [this](const Operator& op, std::span<const Value> inputs) {
    return InferAlone(op, inputs);
  };
  context.narrow = NarrowTypeOf(options_.precision, options_.device);
  context.on_gpu = options_.device.type != DeviceType::kCpu;
  for (const Pass& pass : Passes()) {
    CheckStop();
    if (Disabled(options_, pass.name)) continue;
    const size_t before = impl_->graph.operators.size();
    pass.run(impl_->graph, context);
    if (log::Enabled(log::Level::kDebug)) {
      log::Write(log::Level::kDebug,
                 "pass " + std::string(pass.name) + ": " + std::to_string(before) + " -> " +
                     std::to_string(impl_->graph.operators.size()) + " operators");
    }
  }
}

void GraphBuilder::AssignSlots() {
  order_ = impl_->graph.TopologicalOrder();
  slot_of_.assign(impl_->graph.operands.size(), -1);
  for (int index : order_) {
    for (int output : impl_->graph.operators[static_cast<size_t>(index)].outputs) {
      slot_of_[static_cast<size_t>(output)] = static_cast<int>(impl_->slot_names.size());
      impl_->slot_names.push_back(impl_->graph.operands[static_cast<size_t>(output)].name);
    }
  }
  impl_->constants.assign(impl_->slot_names.size(), Value::Deferred());
}

namespace {

/// Bytes of its weights that are there.
int64_t AttributeBytes(const Operator& op) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : op.attributes) {
    if (tensor.has_data()) bytes += static_cast<int64_t>(tensor.bytes());
  }
  return bytes;
}

}  // namespace

void GraphBuilder::MakeNodes() {
  std::vector<Problem> problems;
  PromisedWeights promised(impl_->graph);
  for (const Operator& op : impl_->graph.operators) attribute_bytes_ += AttributeBytes(op);
  const uint64_t total = order_.size();
  uint64_t done = 0;
  for (int index : MakingOrder()) {
    CheckStop();
    if (options_.progress) options_.progress({"build", done++, total});
    Operator& op = impl_->graph.operators[static_cast<size_t>(index)];
    attribute_bytes_ -= AttributeBytes(op);
    promised.Fulfil(op);
    attribute_bytes_ += AttributeBytes(op);
    if (op.type == "pnnx.Attribute") {
      Constant(op.outputs[0]) = op.attributes.at("data");
    } else if (!op.IsPort()) {
      try {
        AddNode(index, op);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kOutOfMemory) throw;
        problems.push_back({error.code(), error.what(), op.FileName(), op.FileType(), op.line});
      }
    }
  }
  if (options_.progress) options_.progress({"build", total, total});
  if (!problems.empty()) throw Error("the model cannot run", std::move(problems));
  std::vector<size_t> place(impl_->graph.operators.size());
  for (size_t i = 0; i < order_.size(); ++i) place[static_cast<size_t>(order_[i])] = i;
  std::ranges::sort(impl_->nodes, {},
                    [&](const Node& node) { return place[static_cast<size_t>(node.op)]; });
}

std::vector<int> GraphBuilder::MakingOrder() const {
  const Graph& graph = impl_->graph;
  const std::vector<bool> constant = ConstantOperands(graph, RegistryOf(options_));
  // What reads constants waits for them.
  const auto may_go_first = [&](const Operator& op) {
    return std::ranges::none_of(op.inputs,
                                [&](int input) { return constant[static_cast<size_t>(input)]; });
  };
  using Weight = std::pair<const Buffer*, size_t>;
  std::map<Weight, std::vector<int>> readers;
  const auto each_weight = [&](int index, const auto& body) {
    for (const auto& [name, tensor] : graph.operators[static_cast<size_t>(index)].attributes) {
      if (tensor.storage() != Storage::kNone) body(Weight{tensor.buffer().get(), tensor.offset()});
    }
  };
  for (int index : order_) {
    each_weight(index, [&](const Weight& weight) { readers[weight].push_back(index); });
  }
  std::vector<int> making;
  std::vector<bool> is_there(graph.operators.size(), false);
  const auto make = [&](int index) {
    if (!is_there[static_cast<size_t>(index)]) making.push_back(index);
    is_there[static_cast<size_t>(index)] = true;
  };
  for (int index : order_) {
    make(index);
    each_weight(index, [&](const Weight& weight) {
      for (int reader : readers[weight]) {
        if (may_go_first(graph.operators[static_cast<size_t>(reader)])) make(reader);
      }
    });
  }
  return making;
}

void GraphBuilder::AddNode(int index, const Operator& op) {
  std::vector<Value> constant_inputs;
  std::vector<int> slots;
  bool all_constant = true;
  for (int input : op.inputs) {
    constant_inputs.push_back(Constant(input));
    all_constant = all_constant && !constant_inputs.back().IsDeferred();
    slots.push_back(slot_of_[static_cast<size_t>(input)]);
  }
  if (all_constant && KeepNumbers(op, constant_inputs)) return;
  const int64_t bytes_before = ThreadHostBytes();
  const int64_t device_bytes_before = backend_ ? backend_->ThreadBytes() : 0;
  Node node = MakeNode(op, constant_inputs, options_.device);
  if (backend_) {
    impl_->device_weight_bytes +=
        static_cast<size_t>(std::max<int64_t>(0, backend_->ThreadBytes() - device_bytes_before));
  }
  layer_bytes_ += ThreadHostBytes() - bytes_before;
  CountLoading();
  attribute_bytes_ -= AttributeBytes(op);
  ReleaseWeights(index, node);
  attribute_bytes_ += AttributeBytes(op);
  node.op = index;
  node.inputs = std::move(slots);
  node.first_output = op.outputs.empty() ? 0 : slot_of_[static_cast<size_t>(op.outputs[0])];
  impl_->nodes.push_back(std::move(node));
}

bool GraphBuilder::KeepNumbers(const Operator& op, std::span<const Value> inputs) {
  if (SchemaOf(op.type)->random()) return false;
  const LoneNode lone(MakeNode(op, inputs, Device::Cpu()), op, inputs);
  const std::vector<Value> outputs = InferNode(lone.impl, lone.node(), lone.args());
  const bool numbers = std::all_of(outputs.begin(), outputs.end(), [](const Value& value) {
    return value.IsConcrete() && !value.IsTensor();
  });
  if (!numbers || outputs.empty()) return false;
  for (size_t i = 0; i < outputs.size(); ++i) Constant(op.outputs[i]) = outputs[i];
  return true;
}

Value& GraphBuilder::Constant(int operand) {
  return impl_->constants[static_cast<size_t>(slot_of_[static_cast<size_t>(operand)])];
}

namespace {

Port MakePort(const std::string& name, const Operand& operand) {
  return {name, operand.name, operand.dtype, operand.has_shape, operand.shape, Device::Cpu()};
}

}  // namespace

void GraphBuilder::MakePorts() {
  const Graph& graph = impl_->graph;
  for (int index : graph.InputOperators()) {
    const Operator& op = graph.operators[static_cast<size_t>(index)];
    impl_->inputs.push_back(MakePort(op.name, graph.operands[static_cast<size_t>(op.outputs[0])]));
    impl_->input_slots.push_back(slot_of_[static_cast<size_t>(op.outputs[0])]);
  }
  for (int index : graph.OutputOperators()) {
    for (int operand : graph.operators[static_cast<size_t>(index)].inputs) {
      impl_->output_slots.push_back(slot_of_[static_cast<size_t>(operand)]);
      const std::string name = "pnnx_output_" + std::to_string(impl_->outputs.size());
      impl_->outputs.push_back(MakePort(name, graph.operands[static_cast<size_t>(operand)]));
    }
  }
}

void GraphBuilder::CheckTracedShapes() {
  if (!options_.check_traced_shapes) return;
  std::vector<Value> inputs;
  for (const Port& port : impl_->inputs) {
    if (port.dtype == DType::kNull || !port.has_shape || !port.shape.IsKnown()) return;
    inputs.emplace_back(Tensor::Meta(port.dtype, port.shape));
  }
  impl_->PlanFor(inputs, 1);
}

}  // namespace oort
