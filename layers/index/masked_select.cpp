// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "core/dispatch.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class MaskedSelectLayer final : public Layer {
 public:
  explicit MaskedSelectLayer(const LayerInit& init)
      : input_(init.Arg("input")), mask_(init.Arg("mask")) {}

  std::vector<Value> Infer(const Args& args) const override {
    BroadcastShapes(args.shape(input_), args.shape(mask_));
    return {Value::Deferred()};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Shape shape = BroadcastShapes(args.shape(input_), args.shape(mask_));
    const Tensor input = Expanded(context, args.tensor(input_), shape);
    const Tensor mask = Expanded(context, args.tensor(mask_), shape);
    const uint8_t* flags = reinterpret_cast<const uint8_t*>(mask.raw());
    const int64_t elements = mask.elements();
    const int64_t count = elements - std::count(flags, flags + elements, uint8_t{0});
    Tensor output(input.dtype(), Shape{count});
    const size_t item = ItemSize(input.dtype());
    std::byte* target = output.raw();
    for (int64_t i = 0; i < elements; ++i) {
      if (flags[i] == 0) continue;
      std::memcpy(target, input.raw() + static_cast<size_t>(i) * item, item);
      target += item;
    }
    outputs[0] = output;
  }

 private:
  static Tensor Expanded(const Context& context, const Tensor& tensor, const Shape& shape) {
    if (tensor.shape() == shape) return tensor;
    Tensor expanded(tensor.dtype(), shape);
    CopyStrided(context, ItemSize(tensor.dtype()), tensor.raw(),
                Strided(tensor.shape()).Broadcast(shape), expanded.raw());
    return expanded;
  }

  int input_, mask_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(masked_select) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.masked_select"},
                              "The elements where the mask is true, one after another")
                   .Tensor("input", kAllDTypes)
                   .Tensor("mask", DType::kBool),
               Create<MaskedSelectLayer>());
}
