// SPDX-License-Identifier: MIT
// Running extremes and running log-sum-exp along an axis.
#include <cmath>

#include "core/dispatch.h"
#include "layers/reduction/lines.h"

namespace oort {
namespace {

/// cummax and cummin: the last position of the best element so far; NaN stays once it came.
class RunningExtreme final : public Layer {
 public:
  RunningExtreme(const LayerInit& init, bool largest) : largest_(largest), dim_(init.Int("dim")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    NormalizeAxis(dim_, x.rank());
    return {Tensor::Meta(x.dtype(), x.shape()), Tensor::Meta(DType::kI64, x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const AxisLines lines(x.shape(), NormalizeAxis(dim_, x.rank()));
    int64_t* indices = outputs[1].AsTensor().data<int64_t>();
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      using Number = std::conditional_t<kIsHalf<T>, float, T>;
      if constexpr (!kIsComplex<T>) {
        T* values = outputs[0].AsTensor().data<T>();
        lines.ForEach(context, [&](int64_t line) {
          const int64_t start = lines.Start(line);
          int64_t best = 0;
          for (int64_t i = 0; i < lines.extent; ++i) {
            const Number value = static_cast<Number>(x.data<T>()[start + i * lines.step]);
            const Number so_far = static_cast<Number>(x.data<T>()[start + best * lines.step]);
            const bool as_good = largest_ ? value >= so_far : value <= so_far;
            if (value != value || (so_far == so_far && as_good)) best = i;
            values[start + i * lines.step] = x.data<T>()[start + best * lines.step];
            indices[start + i * lines.step] = best;
          }
        });
      }
    });
  }

 private:
  bool largest_;
  int64_t dim_;
};

/// log(exp(x0) + … + exp(xi)) for each i.
class RunningLogSumExp final : public Layer {
 public:
  explicit RunningLogSumExp(const LayerInit& init) : dim_(init.Int("dim")) {}

  std::vector<Value> Infer(const Args& args) const override {
    NormalizeAxis(dim_, args.tensor(0).rank());
    return {Tensor::Meta(args.tensor(0).dtype(), args.shape(0))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const AxisLines lines(x.shape(), NormalizeAxis(dim_, x.rank()));
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        T* y = outputs[0].AsTensor().data<T>();
        lines.ForEach(context, [&](int64_t line) {
          double sum = -INFINITY;
          for (int64_t i = 0; i < lines.extent; ++i) {
            const int64_t at = lines.Start(line) + i * lines.step;
            const double value = ConvertElement<double>(x.data<T>()[at]);
            const double high = std::max(sum, value), low = std::min(sum, value);
            // Equal infinities have no difference.
            sum = std::isnan(sum) || std::isnan(value) ? NAN
                  : std::isinf(high)                   ? high
                                                       : high + std::log1p(std::exp(low - high));
            y[at] = ConvertElement<T>(sum);
          }
        });
      }
    });
  }

 private:
  int64_t dim_;
};

LayerCreator CreateRunningExtreme(bool largest) {
  return
      [largest](const LayerInit& init) { return std::make_unique<RunningExtreme>(init, largest); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(scan) {
  using namespace oort;
  for (const bool largest : {true, false}) {
    const std::string name = largest ? "cummax" : "cummin";
    registry.Add(OperatorSchema({"torch." + name, "aten::" + name},
                                std::string(largest ? "The largest" : "The smallest") +
                                    " element so far along an axis, and its last position")
                     .Tensor("input", kReals)
                     .Int("dim")
                     .Outputs(2),
                 CreateRunningExtreme(largest));
  }
  registry.Add(OperatorSchema({"torch.logcumsumexp", "aten::logcumsumexp"},
                              "The logarithms of running sums of exponentials along an axis")
                   .Tensor("input", kFloats)
                   .Int("dim"),
               Create<RunningLogSumExp>());
}
