// SPDX-License-Identifier: MIT
// What layers share that multiply two operands as torch.matmul does.
#pragma once

#include <string_view>

#include "layers/linear/product.h"

namespace oort {

/// A constant second operand is packed when the layer is made.
class MatmulLayer : public Layer {
 public:
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

 protected:
  MatmulLayer(const LayerInit& init, std::string_view a, std::string_view b,
              const GemmKernels& kernels)
      : a_(init.Arg(a)),
        b_(init.Arg(b)),
        kernels_(kernels),
        packed_(PackConstant(kernels_, init.Constant(b))) {}

  const Tensor& a(const Args& args) const { return args.tensor(a_); }
  const Tensor& b(const Args& args) const { return args.tensor(b_); }
  Product ProductOf(const Args& args) const {
    return MatmulProduct(args.shape(a_), args.shape(b_));
  }

  void Multiply(const Context& context, const Args& args, ProductEnd end, Tensor& output) const {
    if (!packed_.empty()) end.packed_b = packed_.panels();
    RunProduct(kernels_, context, ProductOf(args), a(args), b(args), end, output);
  }

 private:
  int a_, b_;
  const GemmKernels& kernels_;
  PackedMatrix packed_;
};

}  // namespace oort
