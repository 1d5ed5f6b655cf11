// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/dispatch.h"
#include "layers/reduction/device_lines.h"

namespace oort {
namespace {

/// Largest (smallest) first; NaN is larger than everything.
template <typename Value>
bool Before(Value a, Value b, bool largest) {
  const bool a_nan = a != a, b_nan = b != b;
  return largest ? (a_nan && !b_nan) || a > b : (!a_nan && b_nan) || a < b;
}

/// Whether torch would sort a part of all elements; it selects otherwise. To do the same brings
/// even equal and unsorted elements into the same order.
bool SortsPart(int64_t k, int64_t extent) { return k * 64 <= extent; }

/// Brings the best k to the front.
template <typename Key>
void Select(std::vector<IndexedKey<Key>>& all, int64_t k, bool largest, bool sorted) {
  const auto before = [largest](const IndexedKey<Key>& a, const IndexedKey<Key>& b) {
    return Before(a.value, b.value, largest);
  };
  if (k == 0) return;
  std::nth_element(all.begin(), all.begin() + k - 1, all.end(), before);
  if (sorted) std::sort(all.begin(), all.begin() + k - 1, before);
}

/// Elements along an axis.
template <typename T>
struct Line {
  using Key = SortKey<T>;
  Key operator[](int64_t j) const { return static_cast<Key>(first[j * step]); }

  const T* first;
  int64_t step;
};

/// Where from `begin` on an element may come before `worst`, in whole runs; `end` where none does.
/// Nearly all runs have none, and compilers hold a run against a number by vectors.
template <bool kLargest, typename T>
int64_t SkipWorse(const Line<T>& line, int64_t begin, int64_t end, SortKey<T> worst) {
  constexpr int64_t kRun = 32;
  if (line.step != 1) return begin;
  for (; begin + kRun <= end; begin += kRun) {
    int better = 0;
    for (int64_t j = begin; j < begin + kRun; ++j) {
      const auto key = static_cast<SortKey<T>>(line.first[j]);
      // NaN, which no number comes before, is never worse.
      better |= kLargest ? !(key <= worst) : !(key >= worst);
    }
    if (better != 0) break;
  }
  return begin;
}

/// What std::partial_sort would bring to the front, step by step: a heap of the best k, and each
/// element that is better than the worst of them takes its place.
template <bool kLargest, typename T, typename Key = SortKey<T>>
void SortPart(std::vector<IndexedKey<Key>>& heap, int64_t k, int64_t extent, const Line<T>& line) {
  const auto before = [](const IndexedKey<Key>& a, const IndexedKey<Key>& b) {
    return Before(a.value, b.value, kLargest);
  };
  for (int64_t j = 0; j < k; ++j) heap[static_cast<size_t>(j)] = {line[j], j};
  const auto end = heap.begin() + k;
  std::make_heap(heap.begin(), end, before);
  Key worst = heap.front().value;
  constexpr int64_t kPiece = 32;
  for (int64_t begin = k; begin < extent;) {
    begin = SkipWorse<kLargest>(line, begin, extent, worst);
    const int64_t stop = std::min(begin + kPiece, extent);
    for (; begin < stop; ++begin) {
      const Key value = line[begin];
      if (!Before(value, worst, kLargest)) continue;
      heap[static_cast<size_t>(k)] = {value, begin};
      std::pop_heap(heap.begin(), end + 1, before);
      worst = heap.front().value;
    }
  }
  std::sort_heap(heap.begin(), end, before);
}

class TopK : public Layer {
 public:
  explicit TopK(const LayerInit& init)
      : k_(init.Arg("k")),
        dim_(init.Int("dim")),
        largest_(init.Bool("largest")),
        sorted_(init.Bool("sorted")),
        on_device_(init.device().type != DeviceType::kCpu) {
    if (on_device_ && !sorted_) {
      throw Error(ErrorCode::kUnsupported,
                  "sorted=False asks for the order in which the CPU finds them");
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    const int axis = NormalizeAxis(dim_, x.rank());
    const int64_t extent = x.rank() == 0 ? 1 : x.shape()[axis], k = args[k_].AsInt();
    if (k < 0 || k > extent) {
      throw Error(ErrorCode::kInvalidArgument, "k=" + std::to_string(k) + " is not in [0, " +
                                                   std::to_string(extent) +
                                                   "], the extent of axis " + std::to_string(axis));
    }
    Shape shape = x.shape();
    if (shape.rank() > 0) shape[axis] = k;
    return {Tensor::Meta(x.dtype(), shape), Tensor::Meta(DType::kI64, shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const int axis = NormalizeAxis(dim_, x.rank());
    const int64_t extent = x.rank() == 0 ? 1 : x.shape()[axis], k = args[k_].AsInt();
    const int64_t inner = x.shape().Product(std::min(axis + 1, x.rank()), x.rank());
    if (outputs[0].AsTensor().elements() == 0) return;
    if (context.stream() != nullptr) {
      const DeviceSort sort = {AxisLines(x.shape(), axis), largest_, k};
      return SortOnDevice(*context.stream(), sort, x, &outputs[0].AsTensor(), outputs[1].AsTensor(),
                          context.workspace());
    }
    const bool part = SortsPart(k, extent);
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsComplex<T>) {
        const T* in = x.data<T>();
        T* values = outputs[0].AsTensor().data<T>();
        int64_t* indices = outputs[1].AsTensor().data<int64_t>();
        using Candidates = std::vector<IndexedKey<SortKey<T>>>;
        const auto run = [&](int64_t i, Candidates& all) {
          const int64_t outer = i / inner, column = i % inner;
          const Line<T> line{in + outer * extent * inner + column, inner};
          if (part && largest_) {
            SortPart<true>(all, k, extent, line);
          } else if (part) {
            SortPart<false>(all, k, extent, line);
          } else {
            for (int64_t j = 0; j < extent; ++j) all[static_cast<size_t>(j)] = {line[j], j};
            Select(all, k, largest_, sorted_);
          }
          for (int64_t j = 0; j < k; ++j) {
            const int64_t at = (outer * k + j) * inner + column;
            values[at] = static_cast<T>(all[static_cast<size_t>(j)].value);
            indices[at] = all[static_cast<size_t>(j)].index;
          }
        };
        context.ParallelFor(x.elements() / extent, 4096 / extent + 1,
                            [&](int64_t begin, int64_t end) {
                              Candidates all(static_cast<size_t>(part ? k + 1 : extent));
                              for (int64_t i = begin; i < end; ++i) run(i, all);
                            });
      }
    });
  }

  size_t Workspace(const Args& args, int) const override {
    if (!on_device_ || args.tensor(0).elements() == 0) return 0;
    return DeviceSortBytes(AxisLines(args.shape(0), NormalizeAxis(dim_, args.shape(0).rank())));
  }

 private:
  int k_;
  int64_t dim_;
  bool largest_, sorted_, on_device_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(topk) {
  registry.Add(OperatorSchema({"torch.topk"},
                              "The k largest (or smallest) elements along an axis, and where.")
                   .Tensor("input", kFloats | kIntegers)
                   .Int("k")
                   .Dynamic()
                   .Int("dim", -1)
                   .Bool("largest", true)
                   .Bool("sorted", true)
                   .Outputs(2),
               Create<TopK>());
}
