// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include "core/dispatch.h"
#include "layers/index/index_plan.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// Slices of one length that are compared element by element.
template <typename T>
struct UniqueRows {
  using Number = std::conditional_t<kIsHalf<T>, float, T>;
  const T* data;
  int64_t width;
  int Compare(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < width; ++i) {
      const Number x = static_cast<Number>(data[a * width + i]);
      const Number y = static_cast<Number>(data[b * width + i]);
      if (x < y) return -1;
      if (y < x || x != y) return 1;  // NaN equals nothing
    }
    return 0;
  }
  bool Less(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < width; ++i) {
      const Number x = static_cast<Number>(data[a * width + i]);
      const Number y = static_cast<Number>(data[b * width + i]);
      if (x < y || (y != y && x == x)) return true;
      if (y < x || (x != x && y == y)) return false;
    }
    return false;
  }
};

/// The distinct elements (or slices of an axis), where each went, and how often each occurs.
class UniqueLayer final : public Layer {
 public:
  UniqueLayer(const LayerInit& init, bool consecutive)
      : consecutive_(consecutive),
        dim_(init.Arg("dim")),
        inverse_(init.Bool("return_inverse")),
        counts_(init.Bool("return_counts")),
        outputs_(init.op().outputs.size()),
        always_(init.type() == "aten::unique_dim") {}

  std::vector<Value> Infer(const Args& args) const override {
    if (args.Has(dim_) && args[dim_].IsConcrete()) {
      NormalizeAxis(args[dim_].AsInt(), args.tensor(0).rank());
    }
    return std::vector<Value>(outputs_, Value::Deferred());
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const bool sliced = args.Has(dim_) && x.rank() > 0;
    const int axis = sliced ? NormalizeAxis(args[dim_].AsInt(), x.rank()) : 0;
    const Tensor rows = sliced ? AxisFirst(context, x, axis) : x.Reshaped({x.elements()});
    const Groups groups = Find(rows);
    Tensor found = Selected(rows, groups.first);
    if (sliced) found = AxisBack(context, found, axis);
    outputs[0] = found;
    const auto optional = [&](size_t i, bool wanted, const std::vector<int64_t>& values,
                              const Shape& shape) {
      if (i >= outputs.size()) return;
      outputs[i] = wanted ? Tensor::From<int64_t>(values, shape) : Tensor(DType::kI64, Shape{0});
    };
    const Shape inverse_shape = sliced ? Shape{rows.dim(0)} : x.shape();
    optional(1, inverse_ || always_, groups.group, inverse_shape);
    optional(2, counts_ || always_, groups.count, {static_cast<int64_t>(groups.count.size())});
  }

 private:
  struct Groups {
    std::vector<int64_t> first;  // a row of each group
    std::vector<int64_t> group;  // of each row
    std::vector<int64_t> count;
  };

  static Tensor AxisFirst(const Context& context, const Tensor& x, int axis) {
    std::vector<int> order = {axis};
    for (int i = 0; i < x.rank(); ++i) {
      if (i != axis) order.push_back(i);
    }
    const Strided view = Strided(x.shape()).Permuted(order);
    Tensor moved(x.dtype(), view.shape());
    CopyStrided(context, ItemSize(x.dtype()), x.raw(), view, moved.raw());
    return moved;
  }

  static Tensor AxisBack(const Context& context, const Tensor& rows, int axis) {
    std::vector<int> order;
    for (int i = 1; i < rows.rank(); ++i) order.push_back(i);
    order.insert(order.begin() + axis, 0);
    const Strided view = Strided(rows.shape()).Permuted(order);
    Tensor moved(rows.dtype(), view.shape());
    CopyStrided(context, ItemSize(rows.dtype()), rows.raw(), view, moved.raw());
    return moved;
  }

  static Tensor Selected(const Tensor& rows, std::vector<int64_t> indices) {
    const IndexPlan plan = PlanSelect(rows.shape(), 0, std::move(indices));
    Tensor selected(rows.dtype(), plan.result);
    CopyIndexed(Context(1, {}), ItemSize(rows.dtype()), rows.raw(), plan, selected.raw());
    return selected;
  }

  Groups Find(const Tensor& rows) const {
    const int64_t count = rows.dim(0);
    Groups groups;
    groups.group.resize(static_cast<size_t>(count));
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), int64_t{0});
    VisitDType(rows.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsComplex<T>) {
        const UniqueRows<T> all{rows.data<T>(), count == 0 ? 0 : rows.elements() / count};
        if (!consecutive_) {
          std::stable_sort(order.begin(), order.end(),
                           [&](int64_t a, int64_t b) { return all.Less(a, b); });
        }
        for (size_t i = 0; i < order.size(); ++i) {
          if (i == 0 || all.Compare(order[i - 1], order[i]) != 0) {
            groups.first.push_back(order[i]);
            groups.count.push_back(0);
          }
          ++groups.count.back();
          groups.group[static_cast<size_t>(order[i])] =
              static_cast<int64_t>(groups.first.size()) - 1;
        }
      }
    });
    return groups;
  }

  bool consecutive_;
  int dim_;
  bool inverse_, counts_;
  size_t outputs_;
  bool always_;
};

LayerCreator CreateUnique(bool consecutive) {
  return [consecutive](const LayerInit& init) {
    return std::make_unique<UniqueLayer>(init, consecutive);
  };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(unique) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"aten::_unique2"},
                     "The distinct elements, sorted; where each went; how often each occurs")
          .Tensor("input", kReals)
          .Ignored("sorted")
          .Bool("return_inverse", false)
          .Bool("return_counts", false)
          .Outputs(1, 3),
      CreateUnique(false));
  registry.Add(OperatorSchema({"aten::unique_dim"}, "The distinct slices of an axis, sorted")
                   .Tensor("input", kReals)
                   .Int("dim")
                   .Dynamic()
                   .Ignored("sorted")
                   .Bool("return_inverse", false)
                   .Bool("return_counts", false)
                   .Outputs(1, 3),
               CreateUnique(false));
  registry.Add(OperatorSchema({"aten::unique_consecutive"},
                              "The elements (or slices of an axis) without those that equal their "
                              "predecessor")
                   .Tensor("input", kReals)
                   .Bool("return_inverse", false)
                   .Bool("return_counts", false)
                   .Int("dim")
                   .Nullable()
                   .Dynamic()
                   .Outputs(1, 3),
               CreateUnique(true));
}
