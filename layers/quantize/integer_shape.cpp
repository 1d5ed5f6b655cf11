// SPDX-License-Identifier: MIT
#include "layers/quantize/integer_shape.h"

#include <algorithm>

#include "layers/epilogue.h"
#include "layers/layout/axes.h"

namespace oort {
namespace {

IntegerScales ScalesOf(const LayerInit& init) {
  IntegerScales numbers;
  numbers.input = {CheckedScale(init.Float("input_scale")),
                   static_cast<int32_t>(init.Int("input_zero_point"))};
  numbers.result = ParseDType(init.String("dtype"));
  if (numbers.result != DType::kF32) {
    numbers.output = {CheckedScale(init.Float("scale")),
                      CheckedZeroPoint(init.Int("zero_point"), numbers.result)};
  }
  numbers.addend = {CheckedScale(init.Float("addend_scale")),
                    static_cast<int32_t>(init.Int("addend_zero_point"))};
  numbers.activation = ReadActivation(init);
  return numbers;
}

/// A constant of the operator with this many elements.
Tensor IntegerConstant(const LayerInit& init, const char* name, int64_t channels) {
  const Value& value = init.Constant(name);
  if (value.IsNone()) return {};
  if (value.AsTensor().shape() != Shape{channels}) {
    throw Error(ErrorCode::kInvalidModel, std::string("expected ") + name + " of shape " +
                                              Shape{channels}.ToString() + ", got " +
                                              value.AsTensor().shape().ToString());
  }
  return value.AsTensor();
}

/// The weight as (out, in, height, width).
Tensor WeightOf(const LayerInit& init, bool rows) {
  const Value& value = init.Constant("@weight");
  if (!value.IsTensor()) {
    throw Error(ErrorCode::kInvalidModel, "expected a weight that is stored with the operator");
  }
  const Tensor& weight = value.AsTensor();
  if (weight.rank() != (rows ? 2 : 4)) {
    throw Error(ErrorCode::kInvalidModel, "expected a weight of rank " +
                                              std::string(rows ? "2" : "4") + ", got " +
                                              weight.shape().ToString());
  }
  return rows ? weight.Reshaped({weight.dim(0), weight.dim(1), 1, 1}) : weight;
}

ConvParams IntegerParams(const LayerInit& init, IntegerLayout layout) {
  if (layout == IntegerLayout::kRows) return {{1, 1}, {0, 0}, {1, 1}, 1};
  return {init, 2, false};
}

/// The padding is written out, so it must not be larger than what windows can see of it.
void CheckIntegerPadding(const ConvGeometry& g) {
  for (const ConvAxis& axis : g.axes) {
    if (std::max(axis.pad, axis.pad_after) <= axis.reach()) continue;
    throw Error(ErrorCode::kUnsupported, "expected padding of at most " +
                                             std::to_string(axis.reach()) +
                                             ", as far as a window reaches, got " +
                                             std::to_string(std::max(axis.pad, axis.pad_after)) +
                                             "; without the pass integer-regions it may be more");
  }
}

}  // namespace

IntegerConvShape::IntegerConvShape(const LayerInit& init, IntegerLayout layout)
    : layout_(layout),
      input_(init.Arg("input")),
      addend_(init.Arg("addend")),
      weight_(init.Arg("@weight")),
      numbers_(ScalesOf(init)),
      params_(IntegerParams(init, layout)),
      weight_shape_(WeightOf(init, layout == IntegerLayout::kRows).shape()) {
  params_.CheckWeight(weight_shape_);
}

IntegerFilters IntegerConvShape::Filters(const LayerInit& init) const {
  IntegerFilters filters;
  filters.weight = WeightOf(init, layout_ == IntegerLayout::kRows);
  filters.scales = IntegerConstant(init, "@scales", weight_shape_[0]);
  filters.bias = IntegerConstant(init, "@bias", weight_shape_[0]);
  for (const float scale : filters.scales.span<float>()) CheckedScale(static_cast<double>(scale));
  return filters;
}

std::vector<Value> IntegerConvShape::Infer(const Args& args) const {
  CheckedZeroPoint(numbers_.input.zero_point, args.tensor(input_).dtype());
  CheckIntegerPadding(Geometry(args));
  const Shape output = Output(args);
  if (args.Has(addend_)) {
    CheckedZeroPoint(numbers_.addend.zero_point, args.tensor(addend_).dtype());
    if (args.shape(addend_) != output) {
      throw Error(ErrorCode::kInvalidArgument, "expected an addend of shape " + output.ToString() +
                                                   ", got " + args.shape(addend_).ToString());
    }
  }
  return {Tensor::Meta(numbers_.result, output)};
}

ConvGeometry IntegerConvShape::Geometry(const Args& args) const {
  const Shape& shape = args.shape(input_);
  if (layout_ == IntegerLayout::kNchw) return params_.Geometry(shape, weight_shape_);
  if (layout_ == IntegerLayout::kNhwc) return params_.Geometry(ToNchw(shape), weight_shape_);
  if (shape.rank() == 0 || shape[shape.rank() - 1] != weight_shape_[1]) {
    throw Error(ErrorCode::kInvalidArgument, "expected rows of " +
                                                 std::to_string(weight_shape_[1]) +
                                                 " elements, got " + shape.ToString());
  }
  return params_.Geometry({1, weight_shape_[1], 1, shape.Product(0, shape.rank() - 1)},
                          weight_shape_);
}

Shape IntegerConvShape::Output(const Args& args) const {
  const ConvGeometry g = Geometry(args);
  if (layout_ == IntegerLayout::kNchw) return g.output;
  if (layout_ == IntegerLayout::kNhwc) return ToNhwc(g.output);
  Shape output = args.shape(input_);
  output[output.rank() - 1] = weight_shape_[0];
  return output;
}

}  // namespace oort
