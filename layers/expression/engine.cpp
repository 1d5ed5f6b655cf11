// SPDX-License-Identifier: MIT
#include "layers/expression/engine.h"

#include <algorithm>

#include "cuda/memory.h"

namespace oort::expression {
namespace {

/// Whether a number or anything unknown keeps the value from being told before it runs.
bool IsDeferred(const Item& item) {
  if (item.kind == Item::kLater || item.kind == Item::kUnknown) return true;
  return std::any_of(item.items.begin(), item.items.end(), IsDeferred);
}

/// The value of an item; `make` gives its tensors.
template <typename Make>
Value ValueOf(const Item& item, const Make& make) {
  if (item.IsTensor()) return make(item);
  if (item.kind != Item::kList) return item.value;
  Value::List list;
  list.reserve(item.items.size());
  for (const Item& element : item.items) list.push_back(ValueOf(element, make));
  return Value(std::move(list));
}

/// One of several results, where the layer runs.
Tensor NewTensor(const Context& context, DType dtype, const Shape& shape) {
  if (context.stream() == nullptr) return Tensor(dtype, shape);
  const size_t bytes = Tensor::Meta(dtype, shape).bytes();
  return Tensor(dtype, shape, cuda::AllocateDevice(bytes, *context.stream()));
}

Program CallProgram(Function function) {
  Program program;
  Step operand;
  operand.kind = Step::kOperand;
  operand.column = 0;
  for (int i = 0; i < Info(function).arity; ++i) {
    operand.index = i;
    program.steps.push_back(operand);
  }
  Step call;
  call.kind = Step::kCall;
  call.function = function;
  call.count = Info(function).arity;
  call.column = 0;
  program.steps.push_back(call);
  program.operands = call.count;
  return program;
}

}  // namespace

Engine::Engine(Program program, Isa isa) : program_(std::move(program)), isa_(isa) {
  for (const Step& step : program_.steps) {
    depends_on_shapes_ |= step.kind == Step::kSize;
    depends_on_elements_ |= step.kind == Step::kInt;
  }
}

Engine::Engine(Function function, Isa isa) : Engine(CallProgram(function), isa) {}

Value Engine::Infer(std::span<const Value* const> operands) const {
  const Lowered lowered = Lower(program_, operands, isa_);
  if (IsDeferred(lowered.result)) return Value::Deferred();
  return ValueOf(lowered.result, [&](const Item& item) -> Value {
    // Elements of a list are the operands themselves; a result of its own has none yet.
    const bool listed = lowered.result.kind == Item::kList && item.operand >= 0;
    if (listed) return *operands[static_cast<size_t>(item.operand)];
    return Tensor::Meta(item.dtype, item.shape);
  });
}

/// Everything that the code depends on: dtypes, which tensors have rank 0, numbers, and shapes
/// where the expression asks for them.
std::string Engine::Signature(std::span<const Value* const> operands) const {
  std::string signature;
  for (const Value* operand : operands) {
    if (!operand->IsTensor()) {
      signature += operand->KindName() + ';';
      continue;
    }
    const Tensor& tensor = operand->AsTensor();
    signature += static_cast<char>('A' + static_cast<int>(tensor.dtype()));
    signature += tensor.rank() == 0 ? '0' : '1';
    if (depends_on_shapes_) signature += tensor.shape().ToString();
  }
  return signature;
}

std::shared_ptr<const Code> Engine::FindCode(const std::string& signature) const {
  const std::lock_guard lock(mutex_);
  return last_.signature == signature ? last_.code : nullptr;
}

void Engine::Forward(const Context& context, std::span<const Value* const> operands,
                     Value& output) const {
  Forward(context, operands, ViewsOf(operands), output);
}

void Engine::Forward(const Context& context, std::span<const Value* const> operands,
                     std::span<const View> views, Value& output) const {
  const std::string signature = Signature(operands);
  const bool allocated = output.IsTensor() && output.AsTensor().has_data();
  if (allocated) {
    const std::shared_ptr<const Code> code = FindCode(signature);
    if (code && code->dtype == output.AsTensor().dtype()) {
      return oort::expression::Run(*code, views, output.AsTensor(), context);
    }
  }
  const Lowered lowered = Lower(program_, operands, isa_);
  const Item& result = lowered.result;
  const bool fits = allocated && result.IsTensor() && output.AsTensor().dtype() == result.dtype &&
                    output.AsTensor().shape() == result.shape;
  if (fits) {
    const auto code = std::make_shared<const Code>(Compile(lowered.dag, result.node));
    if (!depends_on_elements_) {
      const std::lock_guard lock(mutex_);
      last_ = {signature, code};
    }
    return oort::expression::Run(*code, views, output.AsTensor(), context);
  }
  output = ValueOf(result, [&](const Item& item) -> Value {
    if (item.operand >= 0) return *operands[static_cast<size_t>(item.operand)];
    Tensor tensor = NewTensor(context, item.dtype, item.shape);
    oort::expression::Run(Compile(lowered.dag, item.node), views, tensor, context);
    return tensor;
  });
}

Engine::Sharing Engine::Share(std::span<const Value* const> operands) const {
  const Lowered lowered = Lower(program_, operands, isa_);
  const Item& result = lowered.result;
  Sharing sharing;
  if (!result.IsTensor()) return sharing;
  sharing.view = result.operand;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]->IsTensor()) continue;
    const Tensor& tensor = operands[i]->AsTensor();
    if (tensor.dtype() == result.dtype && tensor.shape() == result.shape) {
      sharing.in_place.push_back(static_cast<int>(i));
    }
  }
  return sharing;
}

double Engine::OperationsPerElement(std::span<const Value* const> operands) const {
  const Lowered lowered = Lower(program_, operands, isa_);
  return lowered.result.IsTensor() ? Compile(lowered.dag, lowered.result.node).arithmetic : 0;
}

}  // namespace oort::expression
