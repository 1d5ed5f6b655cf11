// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/gemm.h"
#include "layers/weight_arg.h"

namespace oort {

/// y = x W^T + b over the last axis: shapes.
class LinearLayer : public Layer {
 public:
  explicit LinearLayer(const LayerInit& init)
      : input_(init.Arg("input")), weight_(init, "weight"), bias_(init, "bias") {
    CheckBiasFlag(init);
    const Value& weight = init.Constant(init.Arg("@weight") >= 0 ? "@weight" : "weight");
    if (!weight.IsTensor()) return;
    const Shape& shape = weight.AsTensor().shape();
    CheckWeight(shape);
    CheckRepeated(init, "in_features", {In(shape)});
    CheckRepeated(init, "out_features", {Out(shape)});
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape &input = args.shape(input_), &weight = weight_.shape(args);
    CheckWeight(weight);
    if (input.rank() == 0 || input[input.rank() - 1] != In(weight)) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input whose last axis is " +
                                                   std::to_string(In(weight)) + ", got " +
                                                   input.ToString());
    }
    bias_.CheckShape(args, weight.rank() == 1 ? Shape{} : Shape{Out(weight)});
    Shape output = input;
    if (weight.rank() == 1) {
      output.Erase(output.rank() - 1);
    } else {
      output[output.rank() - 1] = Out(weight);
    }
    output.elements();
    return {Tensor::Meta(args.tensor(input_).dtype(), output)};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const GemmSize size = SizeOf(args);
    cost.flops = 2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) *
                 static_cast<double>(size.k);
    return cost;
  }

 protected:
  // A weight of one axis stands for one output without an axis.
  static int64_t Out(const Shape& weight) { return weight.rank() == 1 ? 1 : weight[0]; }
  static int64_t In(const Shape& weight) { return weight[weight.rank() - 1]; }

  GemmSize SizeOf(const Args& args) const {
    const Shape &input = args.shape(input_), &weight = weight_.shape(args);
    return {input.Product(0, input.rank() - 1), Out(weight), In(weight), false, false};
  }

  int input_;
  AnyWeightArg weight_, bias_;

 private:
  static void CheckWeight(const Shape& weight) {
    if (weight.rank() == 1 || weight.rank() == 2) return;
    throw Error(ErrorCode::kInvalidArgument,
                "expected a weight of rank 1 or 2, got " + weight.ToString());
  }
};

}  // namespace oort
