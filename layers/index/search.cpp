// SPDX-License-Identifier: MIT
// searchsorted, bucketize and isin: where values are among others.
#include <algorithm>
#include <cmath>

#include "core/dispatch.h"
#include "graph/dtype_names.h"
#include "layers/expression/promote.h"
#include "layers/index/index_plan.h"
#include "layers/shape/scalar_bytes.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// A tensor, or a number as one of rank 0.
Tensor AsSearched(const Value& value) {
  if (value.IsTensor()) return value.AsTensor();
  const DType dtype = value.IsFloat() ? DType::kF64 : DType::kI64;
  Tensor scalar(dtype, Shape{});
  std::copy_n(ScalarBytes(value, dtype).data(), ItemSize(dtype), scalar.raw());
  return scalar;
}

Shape SearchedShape(const Value& value) {
  return value.IsTensor() ? value.AsTensor().shape() : Shape{};
}

/// Both in one dtype: f64 where one is a float (numbers of 64 bits lose digits there, as in torch).
DType ComparedDType(const Tensor& a, const Tensor& b) {
  const auto whole = [](const Tensor& x) {
    return IsInteger(x.dtype()) || x.dtype() == DType::kBool;
  };
  return whole(a) && whole(b) ? DType::kI64 : DType::kF64;
}

/// NaN counts as larger than everything, as where torch sorts.
template <typename T>
bool SearchLess(T a, T b) {
  return (b != b && a == a) || a < b;
}

/// For each value, how many elements of the sorted sequence come before it.
class SearchLayer final : public Layer {
 public:
  /// bucketize has the values first and boundaries for all of them.
  SearchLayer(const LayerInit& init, bool bucketize)
      : bucketize_(bucketize),
        sequence_(init.Arg(bucketize ? "boundaries" : "sorted_sequence")),
        values_(init.Arg("input")),
        sorter_(init.Arg("sorter")),
        small_(init.Bool("out_int32")),
        right_(init.Bool("right")) {
    if (const Value& side = init.Constant("side"); !side.IsNone())
      right_ = side.AsString() == "right";
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape sequence = args.shape(sequence_), values = SearchedShape(args[values_]);
    bool fits = sequence.rank() == 1;
    if (!bucketize_ && sequence.rank() > 1 && sequence.rank() == values.rank()) {
      fits = true;
      for (int i = 0; i + 1 < sequence.rank(); ++i) fits = fits && sequence[i] == values[i];
    }
    if (args.Has(sorter_)) fits = fits && args.shape(sorter_) == sequence;
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument, "values " + values.ToString() +
                                                   " cannot be looked up in a sequence " +
                                                   sequence.ToString());
    }
    return {Tensor::Meta(small_ ? DType::kI32 : DType::kI64, values)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& sequence = args.tensor(sequence_);
    const Tensor values = AsSearched(args[values_]);
    const DType dtype = ComparedDType(sequence, values);
    const Tensor sorted = Sorted(args, sequence).To(dtype), wanted = values.To(dtype);
    Tensor& output = outputs[0].AsTensor();
    const int64_t length = sequence.dim(-1);
    const int64_t rows =
        sequence.rank() == 1 ? 1 : sequence.shape().Product(0, sequence.rank() - 1);
    const int64_t each = rows == 0 ? 1 : std::max<int64_t>(1, wanted.elements() / rows);
    VisitDType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (std::is_same_v<T, double> || std::is_same_v<T, int64_t>) {
        context.ParallelFor(wanted.elements(), 1024, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* first = sorted.data<T>() + i / each * length;
            const T value = wanted.data<T>()[i];
            const T* at = right_ ? std::upper_bound(first, first + length, value, SearchLess<T>)
                                 : std::lower_bound(first, first + length, value, SearchLess<T>);
            Store(output, i, at - first);
          }
        });
      }
    });
  }

 private:
  Tensor Sorted(const Args& args, const Tensor& sequence) const {
    if (!args.Has(sorter_)) return sequence;
    Tensor sorted(sequence.dtype(), sequence.shape());
    IndexPlan plan;
    plan.table = PlanGather(sequence.shape(), args.tensor(sorter_), sequence.rank() - 1);
    CopyIndexed(Context(1, {}), ItemSize(sequence.dtype()), sequence.raw(), plan, sorted.raw());
    return sorted;
  }

  void Store(Tensor& output, int64_t i, int64_t place) const {
    if (small_) {
      output.data<int32_t>()[i] = static_cast<int32_t>(place);
    } else {
      output.data<int64_t>()[i] = place;
    }
  }

  bool bucketize_;
  int sequence_, values_, sorter_;
  bool small_, right_;
};

/// Whether each element occurs among the test elements.
class IsinLayer final : public Layer {
 public:
  explicit IsinLayer(const LayerInit& init) : invert_(init.Bool("invert")) {}

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kBool, SearchedShape(args[0]))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor elements = AsSearched(args[0]), tests = AsSearched(args[1]);
    const DType dtype = ComparedDType(elements, tests);
    const Tensor x = elements.To(dtype), among = tests.To(dtype).Clone();
    bool* found = outputs[0].AsTensor().data<bool>();
    VisitDType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (std::is_same_v<T, double> || std::is_same_v<T, int64_t>) {
        const T* data = among.data<T>();
        std::vector<T> sorted(data, data + among.elements());
        std::erase_if(sorted, [](T value) { return value != value; });  // NaN equals nothing
        std::sort(sorted.begin(), sorted.end());
        context.ParallelFor(x.elements(), 4096, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T value = x.data<T>()[i];
            const bool in =
                value == value && std::binary_search(sorted.begin(), sorted.end(), value);
            found[i] = in != invert_;
          }
        });
      }
    });
  }

 private:
  bool invert_;
};

LayerCreator CreateSearch(bool bucketize) {
  return
      [bucketize](const LayerInit& init) { return std::make_unique<SearchLayer>(init, bucketize); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(search) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.searchsorted", "aten::searchsorted"},
                              "Where each value would go in a sorted sequence (the one of its row, "
                              "if there are several), before or behind its equals")
                   .Tensor("sorted_sequence", kReals)
                   .Tensor("input", kReals)
                   .Bool("out_int32", false)
                   .Bool("right", false)
                   .String("side")
                   .Nullable()
                   .OneOf({"left", "right"})
                   .OptionalTensor("sorter", DType::kI64),
               CreateSearch(false));
  registry.Add(OperatorSchema({"torch.bucketize", "aten::bucketize"},
                              "Which interval between the boundaries each element lies in")
                   .Tensor("input", kReals)
                   .Tensor("boundaries", kReals)
                   .Bool("out_int32", false)
                   .Bool("right", false),
               CreateSearch(true));
  registry.Add(OperatorSchema({"torch.isin", "aten::isin"},
                              "Whether each element occurs among the test elements")
                   .Tensor("elements", kReals)
                   .Tensor("test_elements", kReals)
                   .Ignored("assume_unique")
                   .Bool("invert", false),
               Create<IsinLayer>());
}
