// SPDX-License-Identifier: MIT
// Views by strides that the model chooses: Tensor.unfold, diagonals and as_strided.
#include <algorithm>

#include "core/checked.h"
#include "layers/shape/diagonal_view.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// The windows of `size` elements along an axis, `step` apart, as a new last axis.
class UnfoldAxisLayer final : public StridedLayer {
 public:
  explicit UnfoldAxisLayer(const LayerInit& init)
      : StridedLayer(init),
        dim_(init.Arg("dimension")),
        size_(init.Arg("size")),
        step_(init.Arg("step")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    const int dim = NormalizeAxis(args[dim_].AsInt(), input.rank());
    const int64_t size = args[size_].AsInt(), step = args[step_].AsInt();
    const Strided view(input.rank() == 0 ? Shape{1} : input);
    const Strided::Axis along = view[dim];
    if (size < 0 || size > along.extent || step <= 0) {
      throw Error(ErrorCode::kInvalidArgument, "an axis of " + std::to_string(along.extent) +
                                                   " has no windows of " + std::to_string(size) +
                                                   ", " + std::to_string(step) + " apart");
    }
    std::vector<Strided::Axis> axes(view.axes().begin(), view.axes().end());
    const int64_t windows = (along.extent - size) / step + 1;
    axes[static_cast<size_t>(dim)] = {windows, windows == 1 ? 0 : along.stride * step};
    if (input.rank() == 0) axes.clear();
    axes.push_back({size, along.stride});
    return {Strided::Of(axes, 0)};
  }

 private:
  int dim_, size_, step_;
};

/// A diagonal of two axes as a new last axis.
class DiagonalLayer final : public StridedLayer {
 public:
  explicit DiagonalLayer(const LayerInit& init)
      : StridedLayer(init),
        offset_(init.Arg("offset")),
        dim1_(init.Arg("dim1")),
        dim2_(init.Arg("dim2")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    return {DiagonalView(input_shape(args), args[offset_].AsInt(), args[dim1_].AsInt(),
                         args[dim2_].AsInt())};
  }

 private:
  int offset_, dim1_, dim2_;
};

/// Elements at offset + Σ i_k · stride_k of the tensor, read as flat.
class AsStridedLayer final : public StridedLayer {
 public:
  explicit AsStridedLayer(const LayerInit& init)
      : StridedLayer(init),
        size_(init.Arg("size")),
        stride_(init.Arg("stride")),
        offset_(init.Arg("storage_offset")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const auto ints = [&](int arg) {
      return args.Has(arg) ? args[arg].AsInts() : std::vector<int64_t>();
    };
    const std::vector<int64_t> sizes = ints(size_), strides = ints(stride_);
    const int64_t offset = args.Has(offset_) ? args[offset_].AsInt() : 0;
    if (sizes.size() != strides.size() || offset < 0 || sizes.size() > Shape::kMaxRank) {
      throw Error(ErrorCode::kInvalidArgument, "expected a stride for each size, got " +
                                                   args[size_].ToString() + " and " +
                                                   args[stride_].ToString());
    }
    const int64_t elements = Shape(sizes).elements();
    std::vector<Strided::Axis> axes;
    int64_t last = offset;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (strides[i] < 0) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected strides of at least 0, got " + args[stride_].ToString());
      }
      axes.push_back({sizes[i], sizes[i] == 1 ? 0 : strides[i]});
      if (elements > 0) last = CheckedAdd(last, CheckedMultiply(sizes[i] - 1, strides[i]));
    }
    if (elements > 0 && last >= input_shape(args).elements()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "sizes " + args[size_].ToString() + " and strides " + args[stride_].ToString() +
                      " reach beyond shape " + input_shape(args).ToString());
    }
    return {Strided::Of(axes, elements > 0 ? offset : 0)};
  }

 private:
  int size_, stride_, offset_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(windows) {
  using namespace oort;
  registry.Add(OperatorSchema({"Tensor.unfold", "aten::unfold"},
                              "Windows of `size` elements along an axis, `step` apart, as a new "
                              "last axis")
                   .Tensor("input", kAllDTypes)
                   .Int("dimension")
                   .Dynamic()
                   .Int("size")
                   .Dynamic()
                   .Int("step")
                   .Dynamic(),
               Create<UnfoldAxisLayer>());
  registry.Add(OperatorSchema({"torch.diagonal", "aten::diagonal"},
                              "A diagonal of two axes as a new last axis")
                   .Tensor("input", kAllDTypes)
                   .Int("offset", 0)
                   .Dynamic()
                   .Int("dim1", 0)
                   .Int("dim2", 1),
               Create<DiagonalLayer>());
  registry.Add(OperatorSchema({"aten::linalg_diagonal"},
                              "A diagonal of the last two axes as a new last axis")
                   .Tensor("input", kAllDTypes)
                   .Int("offset", 0)
                   .Dynamic()
                   .Int("dim1", -2)
                   .Int("dim2", -1),
               Create<DiagonalLayer>());
  registry.Add(OperatorSchema({"torch.as_strided", "aten::as_strided"},
                              "The elements at storage_offset + sum of i_k * stride_k of the flat "
                              "tensor")
                   .Tensor("input", kAllDTypes)
                   .Ints("size")
                   .Nullable()
                   .Dynamic()
                   .Ints("stride")
                   .Nullable()
                   .Dynamic()
                   .Int("storage_offset")
                   .Nullable()
                   .Dynamic(),
               Create<AsStridedLayer>());
}
