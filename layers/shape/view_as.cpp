// SPDX-License-Identifier: MIT
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// A complex tensor as a real one with a last axis of 2: real and imaginary part.
class ViewAsRealLayer final : public StridedLayer {
 public:
  using StridedLayer::StridedLayer;

 protected:
  DType ResultType(DType input) const override {
    return input == DType::kC128 ? DType::kF64 : input == DType::kC64 ? DType::kF32 : DType::kF16;
  }
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    Shape shape = input_shape(args);
    shape.Append(2);
    return {{Strided(input_shape(args)), shape}};
  }
};

class ViewAsComplexLayer final : public StridedLayer {
 public:
  using StridedLayer::StridedLayer;

 protected:
  DType ResultType(DType input) const override {
    return input == DType::kF64 ? DType::kC128 : input == DType::kF32 ? DType::kC64 : DType::kC32;
  }
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    Shape shape = input_shape(args);
    const int last = shape.rank() - 1;
    if (last < 0 || shape[last] != 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a last axis of 2, got shape " + shape.ToString());
    }
    shape.Erase(last);
    return {{Strided(input_shape(args)), shape}};
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(view_as) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.view_as_real", "aten::view_as_real"},
                              "A complex tensor as pairs of real and imaginary part")
                   .Tensor("input", kComplexes),
               Create<ViewAsRealLayer>());
  registry.Add(OperatorSchema({"torch.view_as_complex", "aten::view_as_complex"},
                              "Pairs of numbers as a complex tensor")
                   .Tensor("input", DType::kF16 | DType::kF32 | DType::kF64),
               Create<ViewAsComplexLayer>());
}
