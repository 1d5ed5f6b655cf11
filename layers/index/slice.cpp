// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "layers/index/slice_spec.h"
#include "layers/shape/slice_range.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

class SliceLayer final : public StridedLayer {
 public:
  explicit SliceLayer(const LayerInit& init) : StridedLayer(init), spec_(init) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    return {spec_.View(input_shape(args), args)};
  }

 private:
  SliceSpec spec_;
};

class SelectLayer final : public StridedLayer {
 public:
  explicit SelectLayer(const LayerInit& init)
      : StridedLayer(init), dim_(init.Arg("dim")), index_(init.Arg("index")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const int dim = NormalizeAxis(args[dim_].AsInt(), input.rank());
    if (input.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "cannot select from a scalar");
    return {Strided(input).Selected(dim, NormalizeIndex(args[index_].AsInt(), input[dim]))};
  }

 private:
  int dim_, index_;
};

class NarrowLayer final : public StridedLayer {
 public:
  explicit NarrowLayer(const LayerInit& init)
      : StridedLayer(init),
        dim_(init.Arg("dim")),
        start_(init.Arg("start")),
        length_(init.Arg("length")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const int dim = NormalizeAxis(args[dim_].AsInt(), input.rank());
    if (input.rank() == 0) throw Error(ErrorCode::kInvalidArgument, "cannot narrow a scalar");
    const int64_t extent = input[dim], length = args[length_].AsInt();
    int64_t start = args[start_].AsInt();
    if (start != extent) start = NormalizeIndex(start, extent);
    if (length < 0 || length > extent - start) {
      throw Error(ErrorCode::kInvalidArgument, "no " + std::to_string(length) + " elements from " +
                                                   std::to_string(start) + " on in an axis of " +
                                                   std::to_string(extent));
    }
    return {Strided(input).Sliced(dim, start, length)};
  }

 private:
  int dim_, start_, length_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(slice) {
  using namespace oort;
  OperatorSchema slice({"Tensor.slice"},
                       "input[start:end:step] along dim, or along several dims at once; a select "
                       "other than 2147483647 picks one position and drops the axis");
  slice.Tensor("input", kAllDTypes).KeepsDType().F16OnCpu();
  registry.Add(DeclareSlices(slice), Create<SliceLayer>());
  registry.Add(OperatorSchema({"Tensor.select"}, "What is at `index` along `dim`")
                   .Tensor("input", kAllDTypes)
                   .Int("dim")
                   .Dynamic()
                   .Int("index")
                   .Dynamic()
                   .KeepsDType(),
               Create<SelectLayer>());
  registry.Add(OperatorSchema({"torch.narrow"}, "`length` elements along `dim` from `start` on")
                   .Tensor("input", kAllDTypes)
                   .Int("dim")
                   .Dynamic()
                   .Int("start")
                   .Dynamic()
                   .Int("length")
                   .Dynamic(),
               Create<NarrowLayer>());
}
