// SPDX-License-Identifier: MIT
#include <optional>

#include "layers/composite/float_dtypes.h"
#include "layers/linear/product.h"
#include "layers/precision_param.h"

namespace oort {
namespace {

/// The names of the two operands, and the ranks that they must have (0: any).
struct MatmulForm {
  const char* type;
  const char* b;
  int a_rank, b_rank;
  const char* doc;
};

void CheckRank(const char* name, const Tensor& tensor, int rank) {
  if (rank == 0 || tensor.rank() == rank) return;
  throw Error(ErrorCode::kInvalidArgument, std::string("expected '") + name + "' of rank " +
                                               std::to_string(rank) + ", got " +
                                               tensor.shape().ToString());
}

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
    CheckRank("input", a, form_.a_rank);
    CheckRank(form_.b, b, form_.b_rank);
    CheckProductDTypes(a, b);
    if (form_.a_rank == 3 && a.shape()[0] != b.shape()[0]) {
      throw Error(ErrorCode::kInvalidArgument, "expected two batches of one size, got " +
                                                   a.shape().ToString() + " and " +
                                                   b.shape().ToString());
    }
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

constexpr MatmulForm kForms[] = {
    {"torch.matmul", "other", 0, 0, "Matrix product; stacks of matrices broadcast"},
    {"torch.mm", "mat2", 2, 2, "Product of two matrices"},
    {"torch.bmm", "mat2", 3, 3, "Products of two batches of matrices"},
    {"torch.mv", "vec", 2, 1, "Product of a matrix and a vector"},
    {"aten::dot", "tensor", 1, 1, "The sum of the products of two vectors"},
};

}  // namespace
}  // namespace oort

OORT_LAYERS(matmul) {
  using namespace oort;
  for (const MatmulForm& form : kForms) {
    OperatorSchema schema = OperatorSchema({form.type}, form.doc)
                                .Tensor("input", kProductDTypes)
                                .Tensor(form.b, kProductDTypes);
    AddPrecisionParam(schema);
    registry.Add(schema, WithHalves(schema, [&form](const LayerInit& init) {
                   return std::make_unique<Matmul>(init, form);
                 }));
  }
}
