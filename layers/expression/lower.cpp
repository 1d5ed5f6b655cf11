// SPDX-License-Identifier: MIT
#include "layers/expression/lower.h"

#include "layers/expression/call.h"
#include "layers/expression/code.h"
#include "layers/expression/numbers.h"

namespace oort::expression {
namespace {

class Lowering {
 public:
  Lowering(const Program& program, std::span<const Value* const> operands, Isa isa)
      : program_(program), operands_(operands), lowered_(isa) {}

  Lowered Run() {
    for (const Step& step : program_.steps) {
      try {
        Item result = RunStep(step);
        stack_.resize(stack_.size() - static_cast<size_t>(step.count));
        stack_.push_back(std::move(result));
      } catch (const Error& error) {
        if (step.column == 0) throw;
        throw error.WithContext("column " + std::to_string(step.column) + ": ");
      }
    }
    lowered_.result = std::move(stack_.back());
    return std::move(lowered_);
  }

 private:
  Item RunStep(const Step& step) {
    const auto args = std::span(stack_).last(static_cast<size_t>(step.count));
    switch (step.kind) {
      case Step::kOperand: return OperandItem(step.index);
      case Step::kLiteral: return NumberItem(program_.literals[static_cast<size_t>(step.index)]);
      case Step::kCall: return CallFunction(lowered_.dag, step.function, args);
      case Step::kCast:
        return args[0].kind == Item::kUnknown ? args[0]
                                              : CastItem(lowered_.dag, args[0], step.dtype);
      case Step::kInt: return ToInt(args[0]);
      case Step::kSize: return SizeOf(args);
      case Step::kList: break;
    }
    Item list;
    list.kind = Item::kList;
    list.items.assign(std::make_move_iterator(args.begin()), std::make_move_iterator(args.end()));
    return list;
  }

  Item OperandItem(int index) {
    if (index >= static_cast<int>(operands_.size())) {
      throw Error(ErrorCode::kInvalidModel, "'@" + std::to_string(index) + "' but there are " +
                                                std::to_string(operands_.size()) + " inputs");
    }
    const Value& value = *operands_[static_cast<size_t>(index)];
    Item item;
    if (value.IsDeferred()) {
      item.kind = Item::kUnknown;
    } else if (value.IsTensor()) {
      const Tensor& tensor = value.AsTensor();
      item.kind = Item::kTensor;
      item.node = lowered_.dag.Operand(index, tensor.dtype());
      item.dtype = tensor.dtype();
      item.shape = tensor.shape();
      item.operand = index;
      item.ready = tensor.has_data() && tensor.device().type == DeviceType::kCpu;
    } else {
      item.value = value;
    }
    return item;
  }

  /// The only element of a tensor as a number, as soon as there is one.
  Item ToInt(const Item& x) {
    if (x.kind == Item::kUnknown) return x;
    if (x.kind == Item::kValue && x.value.IsNumber()) return NumberItem(ToIntNumber(x.value));
    Item later;
    later.kind = Item::kLater;
    later.dtype = DType::kI64;
    if (x.kind == Item::kLater) return later;
    if (!x.IsTensor() || x.shape.elements() != 1) {
      throw Error(ErrorCode::kInvalidModel,
                  "int() takes a number or a tensor of one element" +
                      (x.IsTensor() ? ", got shape " + x.shape.ToString() : std::string()));
    }
    if (!x.ready) return later;
    Tensor element(x.dtype, x.shape);
    oort::expression::Run(Compile(lowered_.dag, x.node), ViewsOf(operands_), element,
                          Context(1, {}));
    if (IsInteger(x.dtype) || x.dtype == DType::kBool) return NumberItem(Value(element).AsInt());
    return NumberItem(ToIntNumber(Value(element.Item())));
  }

  static Item SizeOf(std::span<const Item> args) {
    for (const Item& arg : args) {
      if (arg.kind == Item::kUnknown) return arg;
    }
    if (!args[0].IsTensor()) throw Error(ErrorCode::kInvalidModel, "size() takes a tensor");
    const Shape& shape = args[0].shape;
    if (args.size() == 1) return NumberItem(Value::Ints(shape.dims()));
    if (args[1].kind == Item::kLater) {
      Item later = args[1];
      later.dtype = DType::kI64;
      return later;
    }
    if (args[1].kind != Item::kValue) throw Error(ErrorCode::kInvalidModel, "no axis is a tensor");
    if (shape.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "rank 0 has no axes");
    return NumberItem(shape[NormalizeAxis(args[1].value.AsInt(), shape.rank())]);
  }

  const Program& program_;
  std::span<const Value* const> operands_;
  Lowered lowered_;
  std::vector<Item> stack_;
};

}  // namespace

Lowered Lower(const Program& program, std::span<const Value* const> operands, Isa isa) {
  return Lowering(program, operands, isa).Run();
}

}  // namespace oort::expression
