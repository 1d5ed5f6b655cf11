// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/dispatch.h"
#include "core/scratch_vector.h"
#include "layers/norm/norm_common.h"

namespace oort {
namespace {

class LocalResponseNorm : public Layer {
 public:
  explicit LocalResponseNorm(const LayerInit& init)
      : size_(init.Int("size")),
        alpha_(init.Float("alpha")),
        beta_(init.Float("beta")),
        k_(init.Float("k")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(0);
    if (x.rank() < 3) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an input of rank 3 or more, got " + x.shape().ToString());
    }
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    const Shape& shape = x.shape();
    const ChannelView view = {shape[0], shape[1], shape.Product(2, shape.rank())};
    VisitDType(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const T* in = x.data<T>();
        T* out = outputs[0].AsTensor().data<T>();
        context.ParallelFor(view.outer * view.channels, RowGrain(view.inner),
                            [&](int64_t begin, int64_t end) {
                              ScratchVector<double> squares(static_cast<size_t>(view.inner));
                              for (int64_t p = begin; p < end; ++p)
                                Plane(view, in, out, p, squares);
                            });
      }
    });
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops =
        static_cast<double>(args.tensor(0).elements()) * static_cast<double>(2 * size_ + 4);
    return cost;
  }

 private:
  /// Plane p / channels of sample p, which looks at the planes beside it.
  template <typename T>
  void Plane(const ChannelView& view, const T* in, T* out, int64_t p,
             ScratchVector<double>& squares) const {
    const int64_t channel = p % view.channels, sample = p - channel;
    const int64_t first = std::max<int64_t>(0, channel - size_ / 2);
    const int64_t last = std::min(view.channels - 1, channel + (size_ - 1) / 2);
    std::fill(squares.begin(), squares.end(), 0.0);
    for (int64_t c = first; c <= last; ++c) {
      const T* plane = in + (sample + c) * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) {
        const double value = ConvertElement<double>(plane[i]);
        squares[static_cast<size_t>(i)] += value * value;
      }
    }
    // Channels beyond the edge count as zeros, so the divisor is always the whole size.
    const double scale = alpha_ / static_cast<double>(size_);
    for (int64_t i = 0; i < view.inner; ++i) {
      const int64_t at = p * view.inner + i;
      out[at] = ConvertElement<T>(ConvertElement<double>(in[at]) /
                                  std::pow(k_ + scale * squares[static_cast<size_t>(i)], beta_));
    }
  }

  int64_t size_;
  double alpha_, beta_, k_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(local_response_norm) {
  registry.Add(OperatorSchema({"nn.LocalResponseNorm", "F.local_response_norm"},
                              "x / (k + alpha * mean of x^2 over `size` channels around)^beta.")
                   .Tensor("input", kFloats)
                   .Int("size")
                   .AtLeast(1)
                   .AtMost(2147483647)
                   .Float("alpha", 1e-4)
                   .Float("beta", 0.75)
                   .Float("k", 1.0),
               Create<LocalResponseNorm>());
}
