// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/dispatch.h"
#include "layers/per_element_layer.h"

namespace oort {
namespace {

/// The p-norm of the differences of two rows.
template <typename T>
double RowDistance(const T* a, const T* b, int64_t count, double p) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = std::fabs(ConvertElement<double>(a[i]) - ConvertElement<double>(b[i]));
    if (std::isinf(p)) {
      if (d > sum || d != d) sum = d;
    } else if (p == 0) {
      sum += d != 0 ? 1 : 0;
    } else {
      sum += p == 1 ? d : p == 2 ? d * d : std::pow(d, p);
    }
  }
  if (p == 0 || p == 1 || std::isinf(p)) return sum;
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

/// Distances of all pairs of rows, those of the first row first.
class PdistLayer final : public PerElementLayer<3> {
 public:
  explicit PdistLayer(const LayerInit& init) : p_(init.Float("p")) {
    if (!(p_ >= 0)) throw Error(ErrorCode::kInvalidModel, "expected p of at least 0");
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    if (x.rank() != 2) {
      throw Error(ErrorCode::kInvalidArgument, "expected a matrix, got " + x.ToString());
    }
    const int64_t rows = x.shape()[0];
    const int64_t pairs = rows < 2 ? 0 : CheckedMultiply(rows, rows - 1) / 2;
    return {Tensor::Meta(x.dtype(), {pairs})};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const int64_t rows = x.shape()[0], width = x.shape()[1];
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const T* in = x.data<T>();
        T* out = outputs[0].AsTensor().data<T>();
        const int64_t grain = 8192 / std::max<int64_t>(1, rows * width) + 1;
        context.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            T* to = out + i * (2 * rows - i - 1) / 2;
            for (int64_t j = i + 1; j < rows; ++j) {
              *to++ = ConvertElement<T>(RowDistance(in + i * width, in + j * width, width, p_));
            }
          }
        });
      }
    });
  }

 private:
  double p_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(pdist) {
  using namespace oort;
  registry.Add(OperatorSchema({"F.pdist", "torch.pdist", "aten::pdist"},
                              "The p-norms of the differences of all pairs of rows")
                   .Tensor("input", kFloats)
                   .Float("p", 2),
               Create<PdistLayer>());
}
