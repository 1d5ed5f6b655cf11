// SPDX-License-Identifier: MIT
// One element of a sorted line: median, kthvalue, mode and quantile.
#include <cmath>
#include <numeric>

#include "core/dispatch.h"
#include "layers/reduction/lines.h"
#include "layers/reduction/reduce_plan.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

enum class Statistic { kMedian, kNanMedian, kKth, kMode };

/// In ascending order, NaN last; equal elements keep their order.
template <typename Key>
void SortLine(std::vector<IndexedKey<Key>>& items) {
  std::stable_sort(items.begin(), items.end(),
                   [](const IndexedKey<Key>& a, const IndexedKey<Key>& b) {
                     return (!a.IsNan() && b.IsNan()) || a.value < b.value;
                   });
}

/// The elements of a line so sorted.
template <typename T>
std::vector<IndexedKey<SortKey<T>>> SortedLine(const T* x, int64_t count, int64_t step) {
  std::vector<IndexedKey<SortKey<T>>> items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    items.push_back({static_cast<SortKey<T>>(x[i * step]), i});
  }
  SortLine(items);
  return items;
}

/// How many of sorted items are numbers.
template <typename Key>
int64_t CountNumbers(const std::vector<IndexedKey<Key>>& items) {
  const auto is_nan = [](const IndexedKey<Key>& item) { return item.IsNan(); };
  return std::find_if(items.begin(), items.end(), is_nan) - items.begin();
}

/// The value that occurs most often (the least of them) at its last position.
template <typename Key>
size_t ModePlace(const std::vector<IndexedKey<Key>>& items) {
  size_t best = 0, best_run = 0, run = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    run = i > 0 && items[i].value == items[i - 1].value ? run + 1 : 1;
    if (run > best_run) {
      best_run = run;
      best = i;
    }
  }
  return best;
}

/// Values along an axis with their positions; median without an axis gives one value.
class OrderStatistic final : public Layer {
 public:
  OrderStatistic(const LayerInit& init, Statistic statistic)
      : statistic_(statistic),
        k_(statistic == Statistic::kKth ? init.Int("k") : 0),
        outputs_(init.op().outputs.size()),
        keepdim_(init.Bool("keepdim")) {
    if (const Value& dim = init.Constant("dim"); !dim.IsNone()) dim_ = dim.AsInt();
    if (outputs_ == 2 && !dim_) dim_ = -1;
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    const int64_t extent = LineShape(x)[Axis(x)];
    if (extent == 0 && (dim_ || statistic_ == Statistic::kKth)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an axis with elements, got shape " + x.shape().ToString());
    }
    if (statistic_ == Statistic::kKth && (k_ < 1 || k_ > extent)) {
      throw Error(ErrorCode::kInvalidArgument, "an axis of " + std::to_string(extent) +
                                                   " has no element number " + std::to_string(k_));
    }
    std::vector<Value> metas = {Tensor::Meta(x.dtype(), ResultShape(x))};
    if (outputs_ == 2) metas.emplace_back(Tensor::Meta(DType::kI64, ResultShape(x)));
    return metas;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const AxisLines lines(LineShape(x), Axis(x));
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsComplex<T>) {
        T* values = outputs[0].AsTensor().data<T>();
        if (lines.extent == 0) {  // the median of nothing
          if (outputs[0].AsTensor().elements() == 1) values[0] = ConvertElement<T>(std::nan(""));
          return;
        }
        lines.ForEach(context, [&](int64_t line) {
          const auto items = SortedLine(x.data<T>() + lines.Start(line), lines.extent, lines.step);
          const auto& item = items[Place(items)];
          values[line] = static_cast<T>(item.value);
          if (outputs_ == 2) outputs[1].AsTensor().data<int64_t>()[line] = item.index;
        });
      }
    });
  }

 private:
  Shape LineShape(const Tensor& x) const {
    return dim_ && x.rank() > 0 ? x.shape() : Shape{x.elements()};
  }
  int Axis(const Tensor& x) const { return dim_ ? NormalizeAxis(*dim_, x.rank()) : 0; }
  Shape ResultShape(const Tensor& x) const {
    if (!dim_ || x.rank() == 0) return {};
    Shape shape = x.shape();
    if (keepdim_) {
      shape[Axis(x)] = 1;
    } else {
      shape.Erase(Axis(x));
    }
    return shape;
  }

  template <typename Key>
  size_t Place(const std::vector<IndexedKey<Key>>& items) const {
    const int64_t numbers = CountNumbers(items), count = static_cast<int64_t>(items.size());
    switch (statistic_) {
      case Statistic::kMedian:
        return static_cast<size_t>(numbers < count ? numbers : (count - 1) / 2);
      case Statistic::kNanMedian: return static_cast<size_t>(std::max<int64_t>(0, numbers - 1) / 2);
      case Statistic::kKth: return static_cast<size_t>(k_ - 1);
      default: return ModePlace(items);
    }
  }

  Statistic statistic_;
  std::optional<int64_t> dim_;
  int64_t k_;
  size_t outputs_;
  bool keepdim_;
};

/// The value below which a part q of the elements lies, interpolated between neighbours.
class Quantile final : public Layer {
 public:
  Quantile(const LayerInit& init, bool ignore_nan)
      : ignore_nan_(ignore_nan),
        q_(init.Arg("q")),
        keepdim_(init.Bool("keepdim")),
        interpolation_(init.String("interpolation")) {
    if (const Value& dim = init.Constant("dim"); !dim.IsNone()) dim_ = dim.AsInt();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    const Shape lines = LineShape(x);
    if (lines[Axis(x)] == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an axis with elements, got shape " + x.shape().ToString());
    }
    Shape shape;
    if (args[q_].IsTensor() && args.tensor(q_).rank() > 0) {
      if (args.tensor(q_).rank() > 1) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected a vector of q, got " + args.tensor(q_).ToString());
      }
      shape.Append(args.tensor(q_).elements());
    }
    for (int i = 0; i < x.rank(); ++i) {
      const bool reduced = !dim_ || i == Axis(x);
      if (!reduced || keepdim_) shape.Append(reduced ? 1 : x.shape()[i]);
    }
    return {Tensor::Meta(x.dtype(), shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const AxisLines lines(LineShape(x), Axis(x));
    const std::vector<double> parts = Parts(args);
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (std::is_floating_point_v<T>) {
        T* y = outputs[0].AsTensor().data<T>();
        lines.ForEach(context, [&](int64_t line) {
          const auto items = SortedLine(x.data<T>() + lines.Start(line), lines.extent, lines.step);
          for (size_t i = 0; i < parts.size(); ++i) {
            y[static_cast<int64_t>(i) * lines.count + line] = static_cast<T>(At(items, parts[i]));
          }
        });
      }
    });
  }

 private:
  Shape LineShape(const Tensor& x) const {
    return dim_ && x.rank() > 0 ? x.shape() : Shape{x.elements()};
  }
  int Axis(const Tensor& x) const { return dim_ ? NormalizeAxis(*dim_, x.rank()) : 0; }

  std::vector<double> Parts(const Args& args) const {
    std::vector<double> parts;
    if (args[q_].IsTensor()) {
      const Tensor q = args.tensor(q_).To(DType::kF64);
      parts.assign(q.data<double>(), q.data<double>() + q.elements());
    } else {
      parts.push_back(args[q_].AsFloat());
    }
    for (double part : parts) {
      if (part >= 0 && part <= 1) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "expected q from 0 to 1, got " + Value(part).ToString());
    }
    return parts;
  }

  template <typename Key>
  double At(const std::vector<IndexedKey<Key>>& items, double part) const {
    const int64_t numbers = CountNumbers(items);
    if (numbers == 0 || (!ignore_nan_ && numbers < static_cast<int64_t>(items.size()))) {
      return std::nan("");
    }
    const double rank = part * static_cast<double>(numbers - 1);
    const double floor = std::floor(rank), ceil = std::ceil(rank);
    const auto value = [&](double place) {
      return static_cast<double>(items[static_cast<size_t>(place)].value);
    };
    if (interpolation_ == "lower") return value(floor);
    if (interpolation_ == "higher") return value(ceil);
    if (interpolation_ == "nearest") return value(std::nearbyint(rank));
    const double weight = interpolation_ == "midpoint" ? 0.5 : rank - floor;
    if (floor == ceil) return value(floor);  // also where the neighbour is infinite
    return value(floor) + weight * (value(ceil) - value(floor));
  }

  bool ignore_nan_;
  int q_;
  std::optional<int64_t> dim_;
  bool keepdim_;
  std::string interpolation_;
};

void AddStatistic(LayerRegistry& registry, Statistic statistic, OperatorSchema schema) {
  registry.Add(std::move(schema.Bool("keepdim", false).Outputs(1, 2)),
               [statistic](const LayerInit& init) {
                 return std::make_unique<OrderStatistic>(init, statistic);
               });
}

}  // namespace
}  // namespace oort

OORT_LAYERS(order_statistics) {
  using namespace oort;
  constexpr DTypeSet kOrdered = kFloats | kIntegers;
  AddStatistic(registry, Statistic::kMedian,
               OperatorSchema({"torch.median", "aten::median"},
                              "The median (the lower of two), over all or along an axis with its "
                              "position; NaN if there is one")
                   .Tensor("input", kOrdered)
                   .Int("dim")
                   .Nullable());
  AddStatistic(registry, Statistic::kNanMedian,
               OperatorSchema({"torch.nanmedian", "aten::nanmedian"},
                              "The median of the elements that are not NaN")
                   .Tensor("input", kOrdered)
                   .Int("dim")
                   .Nullable());
  AddStatistic(registry, Statistic::kKth,
               OperatorSchema({"torch.kthvalue", "aten::kthvalue"},
                              "The k-th smallest element along an axis, and its position")
                   .Tensor("input", kOrdered)
                   .Int("k")
                   .Int("dim", -1));
  AddStatistic(registry, Statistic::kMode,
               OperatorSchema({"torch.mode", "aten::mode"},
                              "The most frequent element along an axis, and its position")
                   .Tensor("input", kReals)
                   .Int("dim", -1));
  for (const bool ignore_nan : {false, true}) {
    const std::string name = ignore_nan ? "nanquantile" : "quantile";
    registry.Add(OperatorSchema({"torch." + name, "aten::" + name},
                                std::string("The value below which a part q of the elements") +
                                    (ignore_nan ? " that are not NaN lies" : " lies"))
                     .Tensor("input", DType::kF32 | DType::kF64)
                     .Tensor("q", DType::kF32 | DType::kF64)
                     .Int("dim")
                     .Nullable()
                     .Bool("keepdim", false)
                     .String("interpolation", "linear")
                     .OneOf({"linear", "lower", "higher", "midpoint", "nearest"}),
                 [ignore_nan](const LayerInit& init) {
                   return std::make_unique<Quantile>(init, ignore_nan);
                 });
  }
}
