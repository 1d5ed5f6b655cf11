// SPDX-License-Identifier: MIT
#include <optional>

#include "layers/composite/float_dtypes.h"
#include "layers/linear/product.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

class Matmul final : public Layer {
 public:
  Matmul(const LayerInit& init, const MatmulForm& form)
      : form_(form),
        a_(init.Arg("input")),
        b_(init.Arg(form.b)),
        kernels_(GemmKernelsFor(init)),
        packed_(PackConstant(kernels_, init.Constant(form.b))) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor &a = args.tensor(a_), &b = args.tensor(b_);
    CheckMatmul(form_, a, b);
    return {Tensor::Meta(a.dtype(), ProductOf(args).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    ProductEnd end;
    if (!packed_.empty()) end.packed_b = packed_.panels();
    RunProduct(kernels_, context, ProductOf(args), args.tensor(a_), args.tensor(b_), end,
               outputs[0].AsTensor());
  }

  size_t Workspace(const Args& args, int threads) const override {
    return ProductWorkspace(kernels_, ProductOf(args), args.tensor(a_).dtype(), !packed_.empty(),
                            threads);
  }

  bool Packs(int argument) const override { return argument == b_ && !packed_.empty(); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * ProductOf(args).multiplications();
    return cost;
  }

 private:
  Product ProductOf(const Args& args) const {
    return MatmulProduct(args.shape(a_), args.shape(b_));
  }

  MatmulForm form_;
  int a_, b_;
  const GemmKernels& kernels_;
  PackedMatrix packed_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(matmul) {
  using namespace oort;
  for (const MatmulForm& form : kMatmulForms) {
    OperatorSchema schema = OperatorSchema({form.type}, form.doc)
                                .Tensor("input", kProductDTypes)
                                .Tensor(form.b, kProductDTypes);
    AddPrecisionParam(schema);
    registry.Add(schema, WithHalves(schema, [&form](const LayerInit& init) {
                   return std::make_unique<Matmul>(init, form);
                 }));
  }
}
