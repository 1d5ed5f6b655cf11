// SPDX-License-Identifier: MIT
#include "core/dispatch.h"
#include "layers/per_element_layer.h"
#include "layers/reduction/reduce_plan.h"

namespace oort {
namespace {

template <typename T>
struct TruthOp : ElementOp<TruthOp<T>> {
  using State = bool;
  bool all;
  explicit TruthOp(bool all_of) : all(all_of) {}
  State Start() const { return all; }
  void Step(State& state, T element, int64_t, int) const {
    const bool truth = ConvertElement<bool>(element);
    state = all ? state && truth : state || truth;
  }
};

class Truth : public PerElementLayer<1> {
 public:
  Truth(const LayerInit& init, bool all) : all_(all), axes_(init) {}

  std::vector<Value> Infer(const Args& args) const override {
    // torch keeps u8, its bool of old.
    const DType dtype = args.tensor(0).dtype() == DType::kU8 ? DType::kU8 : DType::kBool;
    return {Tensor::Meta(dtype, axes_.Plan(args.shape(0)).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const ReducePlan plan = axes_.Plan(x.shape());
    // A u8 of 0 or 1 has the bytes of a bool.
    std::byte* y = outputs[0].AsTensor().raw();
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      Reduce(context, plan, x.data<T>(), TruthOp<T>(all_),
             [&](int64_t i, bool state) { y[i] = std::byte{state}; });
    });
  }

 private:
  bool all_;
  ReduceAxes axes_;
};

LayerCreator CreateTruth(bool all) {
  return [all](const LayerInit& init) { return std::make_unique<Truth>(init, all); };
}

OperatorSchema TruthSchema(const std::string& name, const char* doc) {
  return OperatorSchema({"torch." + name, "aten::" + name}, doc)
      .Tensor("input", kReals | DType::kC64 | DType::kC128)
      .Ints("dim")
      .Nullable()
      .Bool("keepdim", false);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(any_all) {
  registry.Add(TruthSchema("any", "Whether any element is true, over some axes or all."),
               CreateTruth(false));
  registry.Add(TruthSchema("all", "Whether all elements are true, over some axes or all."),
               CreateTruth(true));
}
