// SPDX-License-Identifier: MIT
// What nhwc.pack gives, on every device.
#pragma once

#include "layers/layout/axes.h"
#include "oort/layer.h"

namespace oort {

class PackShape {
 public:
  explicit PackShape(const LayerInit& init)
      : dtype_(ParseDType(init.String("dtype"))), channels_(init.Int("channels")) {
    if (dtype_ == DType::kF32 || dtype_ == DType::kF16 || dtype_ == DType::kBF16) return;
    throw Error(ErrorCode::kInvalidModel,
                "expected dtype f32, f16 or bf16, got " + std::string(Name(dtype_)));
  }

  /// Throws unless an image with at most the channels comes.
  Tensor Output(const Args& args) const {
    const Shape& input = args.shape(0);
    if ((input.rank() != 3 && input.rank() != 4) || input[input.rank() - 3] > channels_) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input of rank 3 or 4 with at most " +
                                                   std::to_string(channels_) + " channels, got " +
                                                   input.ToString());
    }
    Shape output = ToNhwc(input);
    output[output.rank() - 1] = channels_;
    return Tensor::Meta(dtype_, output);
  }

 private:
  DType dtype_;
  int64_t channels_;
};

}  // namespace oort
