// SPDX-License-Identifier: MIT
// Tensors of one value: zeros, ones, full and their relatives.
#include <array>

#include "graph/dtype_names.h"
#include "layers/shape/scalar_bytes.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class FullLayer final : public Layer {
 public:
  /// `value` is None where the operator has it as the argument `fill_value`.
  FullLayer(const LayerInit& init, Value value)
      : input_(init.Arg("input")),
        size_(init.Arg("size")),
        fill_(init.Arg("fill_value")),
        dtype_(init.Arg("dtype")),
        value_(std::move(value)) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (size_ >= 0 && !args[size_].IsConcrete()) return {Value::Deferred()};
    return {Tensor::Meta(ResultType(args), ResultShape(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = OutputTensor(outputs[0], ResultType(args), ResultShape(args));
    const std::array<std::byte, 16> item = ScalarBytes(Fill(args), output.dtype());
    if (context.stream() != nullptr) {
      FillItemsOnDevice(*context.stream(), output.raw(), item.data(), ItemSize(output.dtype()),
                        output.elements());
      return;
    }
    CopyStrided(context, ItemSize(output.dtype()), item.data(),
                Strided(Shape{}).Broadcast(output.shape()), output.raw());
  }

 private:
  const Value& Fill(const Args& args) const { return fill_ >= 0 ? args[fill_] : value_; }

  /// What is named; else that of the input; else that of the value, where there is one to go by.
  DType ResultType(const Args& args) const {
    if (args.Has(dtype_)) return RequireTorchDType(args[dtype_]);
    if (input_ >= 0) return args.tensor(input_).dtype();
    if (fill_ < 0) return DType::kF32;
    const Value& fill = args[fill_];
    if (fill.IsTensor()) return fill.AsTensor().dtype();
    if (fill.IsBool()) return DType::kBool;
    if (fill.IsComplex()) return DType::kC64;
    return fill.IsInt() ? DType::kI64 : DType::kF32;
  }

  Shape ResultShape(const Args& args) const {
    if (size_ < 0) return args.shape(input_);
    if (args[size_].IsNone()) return {};
    return Shape(args[size_].AsInts());  // a negative extent is refused where it is multiplied
  }

  int input_, size_, fill_, dtype_;
  Value value_;
};

/// Which arguments a member of the family has.
struct Member {
  const char* type;
  const char* doc;
  bool input, size, fill;
  int value;
};

constexpr Member kMembers[] = {
    {"torch.zeros", "A tensor of zeros", false, true, false, 0},
    {"torch.ones", "A tensor of ones", false, true, false, 1},
    {"torch.full", "A tensor of one value", false, true, true, 0},
    {"torch.empty", "A tensor whose elements do not matter (zeros here)", false, true, false, 0},
    {"torch.zeros_like", "Zeros in the shape of the input", true, false, false, 0},
    {"torch.ones_like", "Ones in the shape of the input", true, false, false, 1},
    {"torch.full_like", "One value in the shape of the input", true, false, true, 0},
    {"torch.empty_like", "A tensor like the input whose elements do not matter (zeros here)", true,
     false, false, 0},
    {"Tensor.new_zeros", "Zeros of the dtype of the input", true, true, false, 0},
    {"Tensor.new_ones", "Ones of the dtype of the input", true, true, false, 1},
    {"Tensor.new_full", "One value in the dtype of the input", true, true, true, 0},
    {"Tensor.new_empty", "Elements of the dtype of the input that do not matter (zeros here)", true,
     true, false, 0},
};

}  // namespace
}  // namespace oort

OORT_LAYERS(full) {
  using namespace oort;
  for (const Member& member : kMembers) {
    const std::string type = member.type;
    OperatorSchema schema({type, "aten::" + type.substr(type.find('.') + 1)}, member.doc);
    if (member.input) schema.Tensor("input", kAllDTypes);
    if (member.size) schema.Ints("size").Nullable().Dynamic();
    if (member.fill) schema.Number("fill_value").Dynamic();
    schema.DTypeName("dtype").Nullable();
    schema.Ignored("layout").Ignored("device").Ignored("pin_memory").Ignored("memory_format");
    registry.Add(std::move(schema), [&member](const LayerInit& init) {
      return std::make_unique<FullLayer>(init, Value(member.value));
    });
  }
}
