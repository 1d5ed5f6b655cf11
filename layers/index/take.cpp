// SPDX-License-Identifier: MIT
#include "layers/index/index_plan.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// Elements of x as if it were flat, in the shape of the index.
class TakeLayer final : public Layer {
 public:
  explicit TakeLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), args.shape(1))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    IndexPlan plan;
    plan.table = ReadIndices(args.tensor(1));
    for (int64_t& offset : plan.table) {
      if (offset < 0 && offset >= -x.elements()) offset += x.elements();
      CheckIndex(offset, x.elements());
    }
    CopyIndexed(context, ItemSize(x.dtype()), x.raw(), plan, outputs[0].AsTensor().raw());
  }
};

/// gather, with x and the index repeated to one shape along the other axes.
class TakeAlongDimLayer final : public Layer {
 public:
  explicit TakeAlongDimLayer(const LayerInit& init) : dim_(init.Arg("dim")) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[dim_].IsConcrete()) return {Value::Deferred()};
    return {Tensor::Meta(args.tensor(0).dtype(), PlanOf(args).index)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Plan plan = PlanOf(args);
    const Tensor x = Repeated(context, args.tensor(0), plan.flat, plan.x);
    const Tensor index = Repeated(context, args.tensor(1), plan.flat, plan.index);
    Tensor& output = OutputTensor(outputs[0], x.dtype(), plan.index);
    GatherElements(context, x, index, plan.dim, output);
  }

 private:
  struct Plan {
    bool flat;
    int dim;
    Shape x, index;
  };

  Plan PlanOf(const Args& args) const {
    const Tensor &x = args.tensor(0), &index = args.tensor(1);
    if (!args.Has(dim_)) return {true, 0, {x.elements()}, {index.elements()}};
    if (x.rank() != index.rank() || x.rank() == 0) {
      throw Error(ErrorCode::kInvalidArgument, "expected an index of rank " +
                                                   std::to_string(x.rank()) + ", got shape " +
                                                   index.shape().ToString());
    }
    const int dim = NormalizeAxis(args[dim_].AsInt(), x.rank());
    Shape a = x.shape(), b = index.shape();
    a[dim] = b[dim] = 1;
    Plan plan{false, dim, BroadcastShapes(a, b), {}};
    plan.index = plan.x;
    plan.x[dim] = x.shape()[dim];
    plan.index[dim] = index.shape()[dim];
    return plan;
  }

  static Tensor Repeated(const Context& context, const Tensor& tensor, bool flat,
                         const Shape& shape) {
    if (flat) return tensor.Reshaped(shape);
    if (tensor.shape() == shape) return tensor;
    Tensor repeated(tensor.dtype(), shape);
    CopyStrided(context, ItemSize(tensor.dtype()), tensor.raw(),
                Strided(tensor.shape()).Broadcast(shape), repeated.raw());
    return repeated;
  }

  int dim_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(take) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.take", "aten::take"},
                              "The elements of the flat tensor that the index names")
                   .Tensor("input", kAllDTypes)
                   .Tensor("index", kIndexTypes),
               Create<TakeLayer>());
  registry.Add(OperatorSchema({"torch.take_along_dim", "aten::take_along_dim"},
                              "gather, with input and indices repeated to one shape along the "
                              "other axes; without a dim both count as flat")
                   .Tensor("input", kAllDTypes)
                   .Tensor("indices", kIndexTypes)
                   .Int("dim")
                   .Nullable()
                   .Dynamic(),
               Create<TakeAlongDimLayer>());
}
