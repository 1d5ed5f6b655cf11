// SPDX-License-Identifier: MIT
// Operators whose output has as many rows as elements are not 0, and masked_scatter.
#include <algorithm>
#include <cstring>

#include "core/dispatch.h"
#include "layers/expression/engine_layer.h"
#include "layers/index/index_plan.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// The places of elements that are not 0 in the flat tensor.
std::vector<int64_t> NonzeroPlaces(const Tensor& x) {
  const Tensor flags = x.To(DType::kBool);
  const uint8_t* data = reinterpret_cast<const uint8_t*>(flags.raw());
  std::vector<int64_t> places;
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (data[i] != 0) places.push_back(i);
  }
  return places;
}

/// Coordinates of the elements that are not 0: one tensor (count, rank), or a vector for each axis.
class NonzeroLayer final : public Layer {
 public:
  NonzeroLayer(const LayerInit&, bool as_list) : as_list_(as_list) {}

  std::vector<Value> Infer(const Args&) const override { return {Value::Deferred()}; }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const std::vector<int64_t> places = NonzeroPlaces(x);
    const int64_t count = static_cast<int64_t>(places.size());
    // The list form reads a scalar as a vector of one.
    const Shape shape = as_list_ && x.rank() == 0 ? Shape{1} : x.shape();
    Tensor table(DType::kI64, {count, shape.rank()});
    std::vector<Tensor> vectors;
    for (int axis = 0; as_list_ && axis < shape.rank(); ++axis) {
      vectors.emplace_back(DType::kI64, Shape{count});
    }
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = places[static_cast<size_t>(i)];
      for (int axis = shape.rank(); axis-- > 0;) {
        int64_t* target = as_list_ ? vectors[static_cast<size_t>(axis)].data<int64_t>() + i
                                   : table.data<int64_t>() + i * shape.rank() + axis;
        *target = rest % shape[axis];
        rest /= shape[axis];
      }
    }
    if (as_list_) {
      outputs[0] = Value::List(vectors.begin(), vectors.end());
    } else {
      outputs[0] = table;
    }
  }

 private:
  bool as_list_;
};

/// x with the elements where the mask is true replaced by those of the source, in order.
class MaskedScatterLayer final : public Layer {
 public:
  explicit MaskedScatterLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (args.tensor(2).dtype() != args.tensor(0).dtype()) {
      throw Error(ErrorCode::kInvalidArgument, "expected a source of dtype " +
                                                   std::string(Name(args.tensor(0).dtype())) +
                                                   ", got " + args.tensor(2).ToString());
    }
    return {Tensor::Meta(args.tensor(0).dtype(), BroadcastShapes(args.shape(0), args.shape(1)))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor &x = args.tensor(0), &source = args.tensor(2);
    Tensor& output = outputs[0].AsTensor();
    const size_t item = ItemSize(x.dtype());
    CopyStrided(context, item, x.raw(), Strided(x.shape()).Broadcast(output.shape()), output.raw());
    Tensor mask(DType::kBool, output.shape());
    CopyStrided(context, 1, args.tensor(1).raw(), Strided(args.shape(1)).Broadcast(output.shape()),
                mask.raw());
    const std::vector<int64_t> places = NonzeroPlaces(mask);
    if (static_cast<int64_t>(places.size()) > source.elements()) {
      throw Error(ErrorCode::kInvalidArgument, "the mask is true " + std::to_string(places.size()) +
                                                   " times, but the source has " +
                                                   std::to_string(source.elements()) + " elements");
    }
    IndexPlan plan;
    plan.table = places;
    ScatterIndexed(item, source.raw(), plan, output.raw());
  }
};

LayerCreator CreateNonzero(bool as_list) {
  return [as_list](const LayerInit& init) { return std::make_unique<NonzeroLayer>(init, as_list); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(nonzero) {
  using namespace oort;
  constexpr DTypeSet kCounted = kReals | DType::kC64 | DType::kC128;
  registry.Add(
      OperatorSchema({"torch.nonzero", "aten::nonzero", "torch.argwhere", "aten::argwhere"},
                     "The coordinates of the elements that are not 0, a row for each")
          .Tensor("input", kCounted),
      CreateNonzero(false));
  registry.Add(OperatorSchema({"aten::nonzero_numpy"},
                              "The coordinates of the elements that are not 0, a vector for each "
                              "axis")
                   .Tensor("input", kCounted),
               CreateNonzero(true));
  registry.Add(OperatorSchema({"aten::where"},
                              "input where the condition holds, else other; of the condition alone "
                              "the coordinates where it holds, a vector for each axis")
                   .Tensor("condition", kCounted)
                   .OptionalTensor("input", kAllDTypes)
                   .OptionalTensor("other", kAllDTypes),
               [](const LayerInit& init) {
                 if (init.op().inputs.size() == 1) return CreateNonzero(true)(init);
                 return expression::CreateFromText("where(@0,@1,@2)")(init);
               });
  registry.Add(OperatorSchema({"torch.masked_scatter", "aten::masked_scatter"},
                              "input with the elements where the mask is true replaced by those of "
                              "the source, in order")
                   .Tensor("input", kAllDTypes)
                   .Tensor("mask", DType::kBool)
                   .Tensor("source", kAllDTypes),
               Create<MaskedScatterLayer>());
}
