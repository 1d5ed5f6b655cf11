// SPDX-License-Identifier: MIT
// What the layers of integer convolutions have in common on every device: parameters and shapes.
#pragma once

#include "layers/convolution/conv_geometry.h"
#include "layers/quantize/integer_numbers.h"

namespace oort {

enum class IntegerLayout { kNhwc, kNchw, kRows };

/// The constants of an operator.
struct IntegerFilters {
  Tensor weight;  ///< i8 (out, in / groups, height, width)
  Tensor scales;  ///< f32 (out)
  Tensor bias;    ///< f32 (out), or undefined
};

class IntegerConvShape {
 public:
  IntegerConvShape(const LayerInit& init, IntegerLayout layout);

  /// Throws unless they fit each other.
  IntegerFilters Filters(const LayerInit& init) const;

  IntegerLayout layout() const { return layout_; }
  const IntegerScales& numbers() const { return numbers_; }
  const ConvParams& params() const { return params_; }
  const Shape& weight_shape() const { return weight_shape_; }
  int input() const { return input_; }
  int addend() const { return addend_; }
  int weight() const { return weight_; }
  int64_t result_bytes() const { return numbers_.result == DType::kF32 ? 4 : 1; }

  ConvGeometry Geometry(const Args& args) const;
  Shape Output(const Args& args) const;
  /// Throws unless the arguments fit the operator.
  std::vector<Value> Infer(const Args& args) const;

 private:
  IntegerLayout layout_;
  int input_, addend_, weight_;
  IntegerScales numbers_;
  ConvParams params_;
  Shape weight_shape_;
};

}  // namespace oort
