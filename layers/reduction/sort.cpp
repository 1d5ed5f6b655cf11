// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/dispatch.h"
#include "layers/reduction/device_lines.h"

namespace oort {
namespace {

/// Sorts along an axis; equal elements keep their order. NaN is larger than everything.
class Sort : public Layer {
 public:
  /// `values` tells sort from argsort.
  Sort(const LayerInit& init, bool values)
      : values_(values), on_device_(init.device().type != DeviceType::kCpu) {
    // sort.stable has `stable` in front: what is matched by position is one place too far then.
    const bool shifted = init.op().inputs.size() == 4;
    dim_ = init.Int(shifted ? "descending" : "dim");
    descending_ = init.Bool(shifted ? "stable" : "descending");
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    NormalizeAxis(dim_, x.rank());
    const Tensor indices = Tensor::Meta(DType::kI64, x.shape());
    if (!values_) return {indices};
    return {Tensor::Meta(x.dtype(), x.shape()), indices};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const int axis = NormalizeAxis(dim_, x.rank());
    const int64_t extent = x.rank() == 0 ? 1 : x.shape()[axis];
    const int64_t inner = x.shape().Product(std::min(axis + 1, x.rank()), x.rank());
    if (x.elements() == 0) return;
    if (context.stream() != nullptr) {
      const DeviceSort sort = {AxisLines(x.shape(), axis), descending_, extent};
      return SortOnDevice(*context.stream(), sort, x, values_ ? &outputs[0].AsTensor() : nullptr,
                          outputs.back().AsTensor(), context.workspace());
    }
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsComplex<T>) {
        const T* in = x.data<T>();
        T* values = values_ ? outputs[0].AsTensor().data<T>() : nullptr;
        int64_t* indices = outputs.back().AsTensor().data<int64_t>();
        context.ParallelFor(x.elements() / extent, 4096 / extent + 1,
                            [&](int64_t begin, int64_t end) {
                              Items<T> items(static_cast<size_t>(extent));
                              for (int64_t i = begin; i < end; ++i) {
                                const int64_t at = i / inner * extent * inner + i % inner;
                                Line(in + at, values != nullptr ? values + at : nullptr,
                                     indices + at, inner, items);
                              }
                            });
      }
    });
  }

  size_t Workspace(const Args& args, int) const override {
    if (!on_device_ || args.tensor(0).elements() == 0) return 0;
    return DeviceSortBytes(AxisLines(args.shape(0), NormalizeAxis(dim_, args.shape(0).rank())));
  }

 private:
  template <typename T>
  using Items = std::vector<IndexedKey<SortKey<T>>>;

  template <typename Key>
  void SortItems(std::vector<IndexedKey<Key>>& items) const {
    using Item = IndexedKey<Key>;
    std::stable_sort(items.begin(), items.end(), [this](const Item& a, const Item& b) {
      return descending_ ? (a.IsNan() && !b.IsNan()) || a.value > b.value
                         : (!a.IsNan() && b.IsNan()) || a.value < b.value;
    });
  }

  template <typename T>
  void Line(const T* in, T* values, int64_t* indices, int64_t step, Items<T>& items) const {
    for (size_t i = 0; i < items.size(); ++i) {
      const int64_t index = static_cast<int64_t>(i);
      items[i] = {static_cast<SortKey<T>>(in[index * step]), index};
    }
    SortItems(items);
    for (size_t i = 0; i < items.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) * step;
      indices[at] = items[i].index;
      if (values != nullptr) values[at] = in[items[i].index * step];
    }
  }

  bool values_, on_device_;
  int64_t dim_ = -1;
  bool descending_ = false;
};

LayerCreator CreateSort(bool values) {
  return [values](const LayerInit& init) { return std::make_unique<Sort>(init, values); };
}

OperatorSchema SortSchema(const std::string& name, const char* doc) {
  return OperatorSchema({"torch." + name, "aten::" + name}, doc)
      .Tensor("input", kReals)
      .Int("dim", -1)
      .Bool("descending", false)
      .Bool("stable", false);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(sort) {
  registry.Add(
      SortSchema("sort", "Sorts along an axis; equal elements keep their order.").Outputs(2),
      CreateSort(true));
  registry.Add(SortSchema("argsort", "The positions that sort an input along an axis."),
               CreateSort(false));
}
