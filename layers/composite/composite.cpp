// SPDX-License-Identifier: MIT
#include "layers/composite/composite.h"

#include <algorithm>

#include "cuda/memory.h"
#include "cuda/stream.h"
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

namespace {

/// Tensors without their elements, which may be on a GPU.
Value WithoutElements(const Value& value) {
  if (value.IsList()) {
    Value::List items;
    for (const Value& item : value.AsList()) items.push_back(WithoutElements(item));
    return Value(std::move(items));
  }
  if (!value.IsTensor()) return value;
  return Tensor::Meta(value.AsTensor().dtype(), value.AsTensor().shape());
}

bool IsOnHost(const Value& value) {
  return value.IsTensor() && value.AsTensor().device().type == DeviceType::kCpu;
}

}  // namespace

Part::Part(const LayerInit& init, Spec spec) : isa_(init.isa()), device_(init.device()) {
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
  constants_ = std::move(spec.constants);
  constants_.resize(op_.inputs.size(), Value::Deferred());
  layer_ = MakeLayer({});
}

std::unique_ptr<Layer> Part::MakeLayer(std::span<const Operand> inputs) const {
  std::vector<const Operand*> output_hints, input_hints;
  for (const Operand& operand : outputs_) output_hints.push_back(&operand);
  for (const Operand& operand : inputs) input_hints.push_back(&operand);
  const LayerCreator creator = LayerRegistry::Global().Creator(op_.type, device_.type);
  if (!creator) {
    throw Error(ErrorCode::kUnsupported,
                "needs " + op_.type + ", which has no layer for " + device_.ToString());
  }
  const LayerInit init(op_, *schema_, args_, constants_, isa_, output_hints, input_hints, device_);
  if (device_.type == DeviceType::kCpu) return creator(init);
  try {
    return creator(init);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    throw Error(ErrorCode::kUnsupported, "needs " + op_.type + ", which " + error.what());
  }
}

void Part::TryOnDevice(const std::vector<Value>& inputs) const {
  std::vector<Operand> operands(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].IsTensor()) continue;
    operands[i].dtype = inputs[i].AsTensor().dtype();
    operands[i].has_shape = true;
    operands[i].shape = inputs[i].AsTensor().shape();
  }
  MakeLayer(operands);
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

std::vector<bool> Part::ShareOutputs(const Layer& layer, const Args& args,
                                     std::vector<Value>& outputs) {
  std::vector<bool> shared(outputs.size(), false);
  for (const Reuse& reuse : layer.Reuses(args)) {
    if (reuse.kind != Reuse::kView || reuse.argument >= args.size()) continue;
    Value& output = outputs[static_cast<size_t>(reuse.output)];
    const Tensor& source = args.tensor(reuse.argument);
    output = Tensor(output.AsTensor().dtype(), output.AsTensor().shape(), source.buffer(),
                    source.offset() + reuse.offset);
    shared[static_cast<size_t>(reuse.output)] = true;
  }
  return shared;
}

std::vector<Value> Part::Run(const Context& context, const std::vector<Value>& inputs) const {
  if (context.stream() != nullptr) return RunOnDevice(context, inputs);
  const Bound bound(args_, inputs);
  const Args args = bound.AsArgs();
  CheckDTypes(bound);
  std::vector<Value> outputs = layer_->Infer(args);
  const std::vector<bool> shared = ShareOutputs(*layer_, args, outputs);
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

std::vector<Value> Part::RunOnDevice(const Context& context,
                                     const std::vector<Value>& inputs) const {
  cuda::Stream& stream = *context.stream();
  std::vector<Value> values, shapes;
  for (const Value& input : inputs) {
    values.push_back(IsOnHost(input) ? Value(cuda::ToDevice(input.AsTensor(), device_)) : input);
    shapes.push_back(WithoutElements(input));
  }
  const Bound bound(args_, values), known(args_, shapes);
  const Args args = bound.AsArgs(), shape_args = known.AsArgs();
  CheckDTypes(known);
  std::vector<Value> outputs = layer_->Infer(shape_args);
  const std::vector<bool> shared = ShareOutputs(*layer_, args, outputs);
  bool work_left = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (shared[i]) continue;
    if (!outputs[i].IsTensor()) {
      if (outputs[i].IsConcrete()) continue;
      throw Error(ErrorCode::kUnsupported, op_.type + " gives what is not known before it runs");
    }
    work_left = true;
    const Tensor& output = outputs[i].AsTensor();
    outputs[i] =
        Tensor(output.dtype(), output.shape(), cuda::AllocateDevice(output.bytes(), stream));
  }
  if (!work_left) return outputs;
  const size_t bytes = layer_->Workspace(shape_args, context.threads());
  const std::shared_ptr<Buffer> workspace = cuda::AllocateDevice(bytes, stream);
  const Context own(context.threads(), {workspace->data(), bytes}, context.sequences(), &stream);
  layer_->Forward(own, args, outputs);
  return outputs;
}

bool Steps::computes() const {
  if (trial_ || (context_ != nullptr && context_->stream() != nullptr)) {
    throw Error(ErrorCode::kUnsupported, "looks at elements, which the GPU would have");
  }
  return context_ != nullptr;
}

std::vector<Value> Steps::All(const Part& part, const std::vector<Value>& inputs) const {
  if (context_ != nullptr) return part.Run(*context_, inputs);
  for (const Value& input : inputs) {
    if (input.IsDeferred()) return {Value::Deferred()};
  }
  if (trial_) part.TryOnDevice(inputs);
  return part.Infer(inputs);
}

Value Steps::Reshape(const Value& value, const Shape& shape) {
  if (value.IsDeferred()) return value;
  const Tensor& tensor = value.AsTensor();
  return tensor.has_data() ? tensor.Reshaped(shape) : Tensor::Meta(tensor.dtype(), shape);
}

void CompositeLayer::TryOnDevice(const LayerInit& init) const {
  if (init.inputs().size() != init.op().inputs.size()) return;  // a part, tried with the whole
  const OperatorSchema& schema = *LayerRegistry::Global().Schema(init.type());
  std::vector<Problem> problems;
  const BoundArgs bound = BindArguments(schema, init.op(), problems);
  std::vector<Value> inputs;
  for (const Operand* hint : init.inputs()) {
    const bool known = hint->has_shape && hint->dtype != DType::kNull;
    inputs.push_back(known ? Value(Tensor::Meta(hint->dtype, hint->shape)) : Value::Deferred());
  }
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const ArgSpec& spec = schema.args()[i];
    const std::string name = spec.attribute ? "@" + spec.name : spec.name;
    if (bound.args[i].input < 0 || !init.IsConstant(name)) continue;
    inputs[static_cast<size_t>(bound.args[i].input)] = WithoutElements(init.Constant(name));
  }
  std::vector<const Value*> args, variadic, all;
  for (const BoundArg& arg : bound.args) {
    args.push_back(arg.input >= 0 ? &inputs[static_cast<size_t>(arg.input)] : &arg.value);
  }
  for (int index : bound.variadic) variadic.push_back(&inputs[static_cast<size_t>(index)]);
  for (const Value& value : inputs) all.push_back(&value);
  std::vector<Value> results;
  try {
    results = Compute(Steps::Trial(), Args(args, variadic, all));
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnsupported, error.what());
  }
  for (const Value& result : results) {
    if (result.IsTensor()) continue;
    throw Error(ErrorCode::kUnsupported, "is known only when it runs, or no tensor");
  }
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
    if (context.stream() != nullptr && IsOnHost(results[i])) {
      results[i] = cuda::ToDevice(results[i].AsTensor(), outputs[i].AsTensor().device());
    }
    const Tensor& result = results[i].AsTensor();
    CopyBytes(context, result.raw(), outputs[i].AsTensor().raw(), result.bytes());
  }
}

}  // namespace oort
