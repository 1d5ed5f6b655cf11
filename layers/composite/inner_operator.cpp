// SPDX-License-Identifier: MIT
#include "layers/composite/inner_operator.h"

#include "cuda/memory.h"
#include "cuda/stream.h"

namespace oort {

CallArgs::CallArgs(const BoundArgs& bound, const std::vector<Value>& values) {
  for (const BoundArg& arg : bound.args) {
    args_.push_back(arg.input >= 0 ? &values[static_cast<size_t>(arg.input)] : &arg.value);
  }
  for (int index : bound.variadic) variadic_.push_back(&values[static_cast<size_t>(index)]);
  for (const Value& value : values) inputs_.push_back(&value);
}

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

namespace {

/// Outputs that are views of an argument become so; tells which they are.
std::vector<bool> ShareOutputs(const Layer& layer, const Args& args, std::vector<Value>& outputs) {
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

}  // namespace

InnerOperator::InnerOperator(Operator op, Known known, Isa isa, Device device)
    : op_(std::move(op)),
      outputs_(static_cast<size_t>(known.outputs)),
      constants_(std::move(known.constants)),
      isa_(isa),
      device_(device) {
  for (size_t i = 0; i < op_.input_names.size(); ++i) op_.inputs.push_back(static_cast<int>(i));
  for (int i = 0; i < known.outputs; ++i) op_.outputs.push_back(i);
  const OperatorSchema* schema = LayerRegistry::Global().Schema(op_.type);
  if (schema == nullptr) throw Error(ErrorCode::kInternal, "no operator " + op_.type);
  schema_ = std::make_shared<const OperatorSchema>(*schema);
  std::vector<Problem> problems;
  bound_ = BindArguments(*schema_, op_, problems);
  if (!problems.empty()) throw Error(problems.front().code, problems.front().message);
  layer_ = MakeLayer(known.traced);
  if (!known.weights_stay) LetPackedGo();
}

void InnerOperator::LetPackedGo() {
  for (size_t i = 0; i < bound_.args.size(); ++i) {
    const ArgSpec& spec = schema_->args()[i];
    if (!spec.attribute || !layer_->Packs(static_cast<int>(i))) continue;
    bound_.args[i].value = WithoutElements(bound_.args[i].value);
    const auto attribute = op_.attributes.find(spec.name);
    if (attribute == op_.attributes.end()) continue;
    attribute->second = Tensor::Meta(attribute->second.dtype(), attribute->second.shape());
  }
}

std::unique_ptr<Layer> InnerOperator::MakeLayer(const std::vector<Value>& traced) const {
  std::vector<Operand> inputs(traced.size());
  for (size_t i = 0; i < traced.size(); ++i) {
    if (!traced[i].IsTensor()) continue;
    inputs[i].dtype = traced[i].AsTensor().dtype();
    inputs[i].has_shape = true;
    inputs[i].shape = traced[i].AsTensor().shape();
  }
  std::vector<const Operand*> output_hints, input_hints;
  for (const Operand& operand : outputs_) output_hints.push_back(&operand);
  for (const Operand& operand : inputs) input_hints.push_back(&operand);
  const LayerRegistry& registry = LayerRegistry::Global();
  const LayerInit init(op_, *schema_, bound_, constants_, isa_, output_hints, input_hints, device_);
  if (device_.type == DeviceType::kCpu) return registry.Make(init);
  try {
    return registry.Make(init);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    throw Error(ErrorCode::kUnsupported, "needs " + op_.type + ", which " + error.what());
  }
}

void InnerOperator::TryOnDevice(const std::vector<Value>& inputs) const {
  // What has weights was made for the first call, and they may be gone.
  if (op_.attributes.empty()) MakeLayer(inputs);
}

void InnerOperator::CheckDTypes(const Args& args) const {
  for (int i = 0; i < args.size(); ++i) {
    const ArgSpec& spec = schema_->args()[static_cast<size_t>(i)];
    const Value& value = args[i];
    if (spec.type != ArgType::kTensor || !value.IsTensor() || spec.dtypes.empty()) continue;
    if (spec.dtypes.Contains(value.AsTensor().dtype())) continue;
    throw Error(ErrorCode::kInvalidArgument,
                op_.type + " does not take dtype " + std::string(Name(value.AsTensor().dtype())));
  }
}

std::vector<Value> InnerOperator::Infer(const std::vector<Value>& inputs) const {
  return Infer(CallArgs(bound_, inputs).args());
}

std::vector<Value> InnerOperator::Infer(const Args& args) const {
  CheckDTypes(args);
  return layer_->Infer(args);
}

std::vector<Value> InnerOperator::Run(const Context& context,
                                      const std::vector<Value>& inputs) const {
  cuda::Stream* const stream = context.stream();
  if (stream == nullptr) return Run(context, inputs, inputs);
  std::vector<Value> values, shapes;
  for (const Value& input : inputs) {
    values.push_back(IsOnHost(input) ? Value(cuda::ToDevice(input.AsTensor(), device_)) : input);
    shapes.push_back(WithoutElements(input));
  }
  return Run(context, values, shapes);
}

std::vector<Value> InnerOperator::Run(const Context& context, const std::vector<Value>& inputs,
                                      const std::vector<Value>& shapes) const {
  cuda::Stream* const stream = context.stream();
  const auto allocate = [&](size_t bytes) {
    return stream != nullptr ? cuda::AllocateDevice(bytes, *stream) : AllocateHost(bytes);
  };
  const CallArgs call(bound_, inputs), known(bound_, shapes);
  const Args args = call.args(), shape_args = known.args();
  std::vector<Value> outputs = Infer(shape_args);
  const std::vector<bool> shared = ShareOutputs(*layer_, args, outputs);
  bool work_left = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (shared[i] || (!outputs[i].IsTensor() && outputs[i].IsConcrete())) continue;
    work_left = true;
    if (outputs[i].IsTensor()) {
      const Tensor& output = outputs[i].AsTensor();
      outputs[i] = Tensor(output.dtype(), output.shape(), allocate(output.bytes()));
    } else if (stream != nullptr) {
      throw Error(ErrorCode::kUnsupported, op_.type + " gives what is not known before it runs");
    }
  }
  if (!work_left) return outputs;
  const size_t bytes = layer_->Workspace(shape_args, context.threads());
  const std::shared_ptr<Buffer> workspace = allocate(bytes);
  const Context own(context.threads(), {workspace->data(), bytes}, context.state(), stream);
  layer_->Forward(own, args, outputs);
  return outputs;
}

}  // namespace oort
