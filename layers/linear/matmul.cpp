// SPDX-License-Identifier: MIT
#include "layers/composite/float_dtypes.h"
#include "layers/linear/matmul_layer.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

class Matmul final : public MatmulLayer {
 public:
  Matmul(const LayerInit& init, const MatmulForm& form)
      : MatmulLayer(init, "input", form.b, GemmKernelsFor(init)), form_(form) {}

  std::vector<Value> Infer(const Args& args) const override {
    CheckMatmul(form_, a(args), b(args));
    return {Tensor::Meta(a(args).dtype(), ProductOf(args).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Multiply(context, args, {}, outputs[0].AsTensor());
  }

 private:
  MatmulForm form_;
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
