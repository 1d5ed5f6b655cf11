// SPDX-License-Identifier: MIT
#include "layers/composite/composite.h"

#include <algorithm>

#include "layers/shape/strided_copy.h"

namespace oort {

/// The arguments of one call, and what they point to.
struct Part::Bound {
  Bound(const BoundArgs& bound, const std::vector<Value>& values) {
    for (const BoundArg& arg : bound.args) {
      args.push_back(arg.input >= 0 ? &values[static_cast<size_t>(arg.input)] : &arg.value);
    }
    for (int index : bound.variadic) variadic.push_back(&values[static_cast<size_t>(index)]);
    for (const Value& value : values) inputs.push_back(&value);
  }
  Args AsArgs() const { return Args(args, variadic, inputs); }
  std::vector<const Value*> args, variadic, inputs;
};

Part::Part(const LayerInit& init, Spec spec) {
  op_.type = std::move(spec.type);
  op_.name = init.op().name;
  op_.line = init.op().line;
  for (size_t i = 0; i < spec.inputs.size(); ++i) op_.inputs.push_back(static_cast<int>(i));
  op_.input_names = std::move(spec.inputs);
  op_.attributes = std::move(spec.attributes);
  outputs_.resize(static_cast<size_t>(spec.outputs));
  for (int i = 0; i < spec.outputs; ++i) op_.outputs.push_back(i);
  for (auto& [key, text] : spec.params) op_.params.emplace(key, Parameter(std::move(text)));
  const LayerRegistry& registry = LayerRegistry::Global();
  const OperatorSchema* schema = registry.Schema(op_.type);
  if (schema == nullptr) throw Error(ErrorCode::kInternal, "no operator " + op_.type);
  schema_ = std::make_shared<const OperatorSchema>(*schema);
  std::vector<Problem> problems;
  args_ = BindArguments(*schema_, op_, problems);
  if (!problems.empty()) throw Error(problems.front().code, problems.front().message);
  spec.constants.resize(op_.inputs.size(), Value::Deferred());
  std::vector<const Operand*> hints;
  for (const Operand& operand : outputs_) hints.push_back(&operand);
  const LayerInit own(op_, *schema_, args_, spec.constants, init.isa(), hints);
  layer_ = registry.Creator(op_.type, DeviceType::kCpu)(own);
}

Part Part::Expression(const LayerInit& init, std::string text, int inputs) {
  return Part(init, {.type = "pnnx.Expression",
                     .inputs = std::vector<std::string>(static_cast<size_t>(inputs)),
                     .params = {{"expr", std::move(text)}}});
}

void Part::CheckDTypes(const Bound& bound) const {
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const ArgSpec& spec = schema_->args()[i];
    const Value& value = *bound.args[i];
    if (spec.type != ArgType::kTensor || !value.IsTensor() || spec.dtypes.empty()) continue;
    if (spec.dtypes.Contains(value.AsTensor().dtype())) continue;
    throw Error(ErrorCode::kInvalidArgument,
                op_.type + " does not take dtype " + std::string(Name(value.AsTensor().dtype())));
  }
}

std::vector<Value> Part::Infer(const std::vector<Value>& inputs) const {
  const Bound bound(args_, inputs);
  CheckDTypes(bound);
  return layer_->Infer(bound.AsArgs());
}

std::vector<Value> Part::Run(const Context& context, const std::vector<Value>& inputs) const {
  const Bound bound(args_, inputs);
  const Args args = bound.AsArgs();
  CheckDTypes(bound);
  std::vector<Value> outputs = layer_->Infer(args);
  std::vector<bool> shared(outputs.size(), false);
  for (const Reuse& reuse : layer_->Reuses(args)) {
    if (reuse.kind != Reuse::kView || reuse.argument >= args.size()) continue;
    Value& output = outputs[static_cast<size_t>(reuse.output)];
    const Tensor& source = args.tensor(reuse.argument);
    output = Tensor(output.AsTensor().dtype(), output.AsTensor().shape(), source.buffer(),
                    source.offset() + reuse.offset);
    shared[static_cast<size_t>(reuse.output)] = true;
  }
  bool work_left = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (shared[i]) continue;
    work_left = work_left || outputs[i].IsTensor() || !outputs[i].IsConcrete();
    if (!outputs[i].IsTensor()) continue;
    outputs[i] = Tensor(outputs[i].AsTensor().dtype(), outputs[i].AsTensor().shape());
  }
  if (!work_left) return outputs;
  const size_t bytes = layer_->Workspace(args, context.threads());
  const std::shared_ptr<Buffer> workspace = AllocateHost(bytes);
  layer_->Forward(Context(context.threads(), {workspace->data(), bytes}, context.sequences()), args,
                  outputs);
  return outputs;
}

std::vector<Value> Steps::All(const Part& part, const std::vector<Value>& inputs) const {
  if (computes()) return part.Run(*context_, inputs);
  for (const Value& input : inputs) {
    if (input.IsDeferred()) return {Value::Deferred()};
  }
  return part.Infer(inputs);
}

Value Steps::Reshape(const Value& value, const Shape& shape) {
  if (value.IsDeferred()) return value;
  const Tensor& tensor = value.AsTensor();
  return tensor.has_data() ? tensor.Reshaped(shape) : Tensor::Meta(tensor.dtype(), shape);
}

std::vector<Value> CompositeLayer::Infer(const Args& args) const {
  return Compute(Steps(nullptr), args);
}

void CompositeLayer::Forward(const Context& context, const Args& args,
                             std::span<Value> outputs) const {
  std::vector<Value> results = Compute(Steps(&context), args);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool allocated = outputs[i].IsTensor() && outputs[i].AsTensor().has_data();
    if (!allocated) {
      outputs[i] = std::move(results[i]);
      continue;
    }
    const Tensor& result = results[i].AsTensor();
    CopyBytes(context, result.raw(), outputs[i].AsTensor().raw(), result.bytes());
  }
}

}  // namespace oort
