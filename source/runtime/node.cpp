// SPDX-License-Identifier: MIT
#include "runtime/device_backend.h"
#include "runtime/runtime_impl.h"

namespace oort {

ArgTable::ArgTable(const RuntimeImpl& graph, const std::vector<Value>& slots) {
  entries_.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    Entry& entry = entries_.emplace_back();
    const auto input = [&](int index) {
      return &slots[static_cast<size_t>(node.inputs[static_cast<size_t>(index)])];
    };
    for (const BoundArg& arg : node.bound.args) {
      entry.args.push_back(arg.input >= 0 ? input(arg.input) : &arg.value);
    }
    for (int index : node.bound.variadic) entry.variadic.push_back(input(index));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      entry.inputs.push_back(input(static_cast<int>(i)));
    }
  }
}

namespace {

std::string NamesOf(DTypeSet dtypes) {
  std::string text;
  for (int i = 1; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (dtypes.Contains(dtype)) text += (text.empty() ? "" : ", ") + std::string(Name(dtype));
  }
  return text;
}

void CheckDType(const ArgSpec& spec, const Value& value) {
  if (!value.IsTensor() || spec.dtypes.empty()) return;
  const DType dtype = value.AsTensor().dtype();
  if (spec.dtypes.Contains(dtype)) return;
  throw Error(ErrorCode::kInvalidArgument, "'" + spec.name + "' has dtype " +
                                               std::string(Name(dtype)) + "; it takes " +
                                               NamesOf(spec.dtypes));
}

}  // namespace

std::vector<Value> InferNode(const RuntimeImpl& graph, const Node& node, const Args& args) {
  return WithOperator(graph.OpOf(node), [&] {
    const std::vector<ArgSpec>& specs = node.schema->args();
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].type != ArgType::kTensor) continue;
      CheckDType(specs[i], args[static_cast<int>(i)]);
      if (!specs[i].variadic) continue;
      for (const Value* value : args.variadic()) CheckDType(specs[i], *value);
    }
    std::vector<Value> outputs = node.layer->Infer(args);
    if (outputs.size() != static_cast<size_t>(node.output_count)) {
      throw Error(ErrorCode::kInvalidModel, "gives " + std::to_string(outputs.size()) +
                                                " outputs, but the model has " +
                                                std::to_string(node.output_count));
    }
    return outputs;
  });
}

namespace {

const Tensor& ReusedArgument(const Args& args, int argument) {
  if (argument < args.size()) return args.tensor(argument);
  return args.variadic()[static_cast<size_t>(argument - args.size())]->AsTensor();
}

}  // namespace

void RunEagerly(const Layer& layer, const Args& args, const Args& shapes, std::vector<Value> specs,
                std::span<Value> outputs, const RunPlace& place) {
  const auto allocate = [&](size_t bytes) {
    return place.queue != nullptr ? place.queue->Allocate(bytes) : AllocateHost(bytes);
  };
  std::vector<bool> done(specs.size(), false);
  for (const Reuse& reuse : layer.Reuses(shapes)) {
    if (reuse.kind != Reuse::kView) continue;
    const size_t index = static_cast<size_t>(reuse.output);
    const Tensor& source = ReusedArgument(args, reuse.argument);
    // A constant of the host is no memory for a result on the device.
    if ((source.device().type == DeviceType::kCpu) != (place.queue == nullptr)) continue;
    const Tensor& spec = specs[index].AsTensor();
    outputs[index] =
        Tensor(spec.dtype(), spec.shape(), source.buffer(), source.offset() + reuse.offset);
    done[index] = true;
  }
  bool work_left = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (done[i]) continue;
    // Infer gives numbers and lists of numbers whole; tensors and what is deferred must be run.
    work_left = work_left || specs[i].IsTensor() || !specs[i].IsConcrete();
    if (specs[i].IsTensor()) {
      const Tensor& spec = specs[i].AsTensor();
      outputs[i] = Tensor(spec.dtype(), spec.shape(), allocate(spec.bytes()));
    } else {
      outputs[i] = std::move(specs[i]);
    }
  }
  if (!work_left) return;
  const size_t workspace_size = layer.Workspace(shapes, place.threads);
  const std::shared_ptr<Buffer> workspace = allocate(workspace_size);
  const Context context(place.threads, {workspace->data(), workspace_size}, place.state,
                        place.queue != nullptr ? place.queue->stream() : nullptr);
  layer.Forward(context, args, outputs);
}

}  // namespace oort
